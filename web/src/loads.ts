// Loads of a curve, and the arrivals of a glance: the page and its workers must agree on them.

import { niceAbove } from "./format";
import type { Checked } from "./types";

/** Loads of a curve. */
const LOADS = 24;

/** 0, 12, 6, 18, 3, ...: each next one halves the widest gap. */
export function spread(count: number): number[] {
  const bits = Math.ceil(Math.log2(count));
  const reverse = (i: number): number =>
    Number.parseInt(i.toString(2).padStart(bits, "0").split("").reverse().join(""), 2);
  return Array.from({ length: 1 << bits }, (_, i) => reverse(i)).filter((i) => i < count);
}

/** The highest first, then each halves the widest gap. */
export function ordered(loads: number[]): number[] {
  return spread(loads.length).map((i) => loads[loads.length - 1 - i] ?? 0);
}

/** The loads asked for; without such, up to past twice what the CPU can do, or to what the link carries. */
export function loadsOf(checked: Checked, queues: string): number[] {
  if (checked.loads_pps.length > 1) return checked.loads_pps;
  const f = checked.figures;
  const packet = (f.protocol ?? 0) + (f.per_byte ?? 0) * (checked.frame_bytes ?? 64) + (f.application ?? 0);
  const count = Math.max(1, Number.parseInt(queues, 10) || 1);
  const high = Math.min(niceAbove((2 * count) / Math.max(packet, 1e-9)), checked.line_rate_pps ?? Infinity);
  return Array.from({ length: LOADS }, (_, i) => (high * (i + 1)) / LOADS);
}

/** Arrivals of a glance: enough to fill the socket and the ring twice beyond the cliff, where there is time for `affordable`. */
export function glancePackets(checked: Checked | null | undefined, affordable: number): number {
  const figures = checked?.figures;
  const room = (figures?.socket_buffer ?? 0) * (figures?.application === undefined ? 0 : 1) + (figures?.ring ?? 0);
  return Math.round(Math.min(Math.max(3000, 4 * room), 30_000, Math.max(affordable, 500)));
}
