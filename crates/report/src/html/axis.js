// Axes of figures in a browser: where a value is on one, and which values are ticks, by the rules of crates/report/src/plot/scale.rs.
// The script of a report's page (figure.js) and the explorer (web/src/chart.ts) draw with these.

/**
 * An axis from `low` to `high` (powers of ten unless linear); `zero` and `from`: on an axis with a place for zero, where that is and
 * where the logarithm begins [share of the axis].
 * @typedef {{ kind: "lin" | "log" | "zero", low: number, high: number, zero?: number, from?: number }} Axis
 */

/**
 * Where a value is on an axis, 0 to 1 within its ends; NaN where it has no logarithm.
 * @param {Axis} axis
 * @param {number} value
 * @returns {number}
 */
export function part(axis, value) {
  if (axis.kind === "lin") return (value - axis.low) / (axis.high - axis.low);
  if (!(value > 0) || (axis.kind === "zero" && Math.log10(value) < axis.low - 1e-9)) return axis.kind === "zero" ? axis.zero : NaN;
  const at = (Math.log10(value) - axis.low) / (axis.high - axis.low);
  return axis.kind === "zero" ? axis.from + (1 - axis.from) * at : at;
}

/**
 * The value at a place of an axis.
 * @param {Axis} axis
 * @param {number} at
 * @returns {number}
 */
export function valueAt(axis, at) {
  const own = axis.kind === "zero" ? (at - axis.from) / (1 - axis.from) : at;
  const inner = axis.low + own * (axis.high - axis.low);
  return axis.kind === "lin" ? inner : 10 ** inner;
}

/**
 * 1, 2 or 5 times a power of ten, the next at or above `raw`.
 * @param {number} raw
 * @returns {number}
 */
export function niceStep(raw) {
  const decade = 10 ** Math.floor(Math.log10(raw));
  return ([1, 2, 5].find((n) => n * decade >= raw * (1 - 1e-9)) ?? 10) * decade;
}

/**
 * The multiples of `step` between two values, 50 at most.
 * @param {number} low
 * @param {number} high
 * @param {number} step
 * @returns {number[]}
 */
export function multiples(low, high, step) {
  const values = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high * (1 + 1e-12) && values.length < 50; n++) values.push(n * step);
  return values;
}

/**
 * Whole powers of `base` between two values above 0, about `most` at most: every one, every second, ...
 * @param {number} low
 * @param {number} high
 * @param {number} base
 * @param {number} most
 * @returns {number[]}
 */
export function powers(low, high, base, most) {
  const values = [];
  const power = (value) => Math.log(value) / Math.log(base);
  const every = Math.max(1, Math.ceil((power(high) - power(low)) / most));
  for (let n = Math.ceil(power(low) - 1e-9); n <= power(high) + 1e-9; n++) if (n % every === 0) values.push(base ** n);
  return values;
}
