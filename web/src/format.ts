// Numbers as people and the command line write them.

const SCALES: [number, string][] = [
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** Three significant digits without an exponent or trailing zeros. */
export function digits(value: number, count = 3): string {
  if (!Number.isFinite(value)) return "-";
  if (value === 0) return "0";
  const text = value.toPrecision(count);
  const plain = text.includes("e") ? Number(text).toString() : text;
  return plain.includes(".") ? plain.replace(/\.?0+$/, "") : plain;
}

/** A rate as `--rate` takes it: 120kpps. */
export function pps(value: number, count = 3): string {
  const rounded = Number(value.toPrecision(count));
  for (const [scale, prefix] of SCALES) {
    if (rounded >= scale) return `${digits(rounded / scale, Math.max(count, 3))}${prefix}pps`;
  }
  return `${digits(rounded, count)}pps`;
}

/** A rate for people: 120 kpps. */
export function rate(value: number): string {
  return pps(value).replace(/([kMG]?pps)$/, " $1");
}

const TIMES: [number, string][] = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "us"],
  [1e-9, "ns"],
];

/** A time as `--set` takes it: 1.49us. */
export function time(seconds: number, count = 3): string {
  if (seconds === 0) return "0s";
  const rounded = Number(seconds.toPrecision(count));
  for (const [scale, unit] of TIMES) {
    if (Math.abs(rounded) >= scale * 0.9999) return `${digits(rounded / scale, count)}${unit}`;
  }
  return `${digits(rounded / 1e-9, count)}ns`;
}

/** A time for people: 1.49 µs. */
export function duration(seconds: number): string {
  return time(seconds)
    .replace(/(ns|us|ms|s)$/, " $1")
    .replace("us", "µs");
}

/** A share for people: 12.3 %, or a small one as 1.2e-4. */
export function share(value: number): string {
  if (value === 0) return "0 %";
  if (Math.abs(value) < 1e-9) return "<1e-9";
  if (Math.abs(value) < 1e-3) return value.toExponential(1);
  return `${digits(value * 100)} %`;
}

/** Seconds of a text such as 1.5us; null: not of that form. */
export function seconds(text: string): number | null {
  const found = /^\s*([0-9.eE+-]+)\s*(ns|us|µs|ms|s)\s*$/.exec(text);
  if (!found) return null;
  const scale = { ns: 1e-9, us: 1e-6, µs: 1e-6, ms: 1e-3, s: 1 }[found[2] ?? "s"];
  const value = Number(found[1]) * (scale ?? 1);
  return Number.isFinite(value) ? value : null;
}

/** Packets per second of a text such as 120kpps; null: not of that form. */
export function rateOf(text: string): number | null {
  const found = /^\s*([0-9.eE+]+)\s*([kMG]?)pps\s*$/.exec(text);
  if (!found) return null;
  const scale = { "": 1, k: 1e3, M: 1e6, G: 1e9 }[found[2] ?? ""];
  const value = Number(found[1]) * (scale ?? 1);
  return Number.isFinite(value) && value > 0 ? value : null;
}

/** The next of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten. */
export function niceAbove(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]) {
    if (step * power >= value * 0.99999) return step * power;
  }
  return 10 * power;
}

/** What a host's name stands with: another one's is not taken for this one's. */
export function hostName(host: string, here: boolean | null): string {
  return here === false ? `another host: ${host}` : host;
}
