// What crates/wasm answers: the JSON types of docs/reference/json-types.md, as far as the page reads them.

export interface Sampled {
  value: number;
  low: number;
  high: number;
  confidence: number;
}
export type Figure = number | Sampled;

export interface Cpu {
  interrupt?: Figure;
  poll?: Figure;
  protocol?: Figure;
  application?: Figure;
  paused?: Figure;
  available?: Figure;
}
export interface Latency {
  mean?: Figure;
  p50?: Figure;
  p90?: Figure;
  p99?: Figure;
  p999?: Figure;
  max?: Figure;
}
export interface Outcome {
  offered_pps?: Figure;
  throughput_pps?: Figure;
  goodput_bps?: Figure;
  loss_fraction?: Figure;
  loss?: { ring?: Figure; socket?: Figure; sender?: Figure };
  latency_s?: Latency;
  latency_to?: string;
  cpu?: Cpu;
  cpu_method?: string;
  interrupts_per_s?: Figure;
  polls_per_s?: Figure;
  packets_per_poll?: Figure;
  notes?: string[];
}
export interface CurvePoint {
  load_pps: number;
  outcome: Outcome;
}
export interface Curve {
  points: CurvePoint[];
}
export interface Fall {
  cliff_pps: number;
  cliff: string;
  livelock: number;
  binding: string | null;
}
export interface Point {
  host: Record<string, unknown>;
  scheme: string;
  traffic: { arrivals: string; size: string; rate: string; link: string };
}
export interface Checked {
  point: Point;
  figures: Record<string, number>;
  warnings: string[];
  line_rate_pps: number | null;
  frame_bytes: number | null;
  model: string | null;
  sim: string | null;
  loads_pps: number[];
}
export interface CostSensitivity {
  cost: string;
  cliff: number;
  latency?: number;
  available?: number;
}
export interface Analysed {
  point: Point;
  outcome: Outcome;
  cliff_pps: number;
  livelock: number;
  sensitivities?: CostSensitivity[];
}
export interface Simulated {
  point: Point;
  engine: string;
  outcome: Outcome;
  packets: number;
  settled: boolean;
}
export interface Moments {
  cpu: [string, number, number][];
  levels: [number, number, number, number, number][];
  timers_s: number[];
  end_s: number;
}
export interface SweepPoint {
  engine: "model" | "sim" | "wire";
  load_pps: number;
  sender_kept_up: boolean;
  outcome: Outcome;
}
export interface ByEngine {
  model?: Figure | null;
  sim?: Figure | null;
  wire?: Figure | null;
}
/** What `find` suggests, with its effect in simulation and, where it was tried, measured. */
export interface Suggestion {
  setting: string;
  why: string;
  expected_cliff_pps?: Figure;
  /** Cliff with it over the cliff without it, less 1. */
  gain?: Figure;
  change?: { netdev_max_backlog?: number; receive_buffer_bytes?: number };
  tried?: { without_pps: Figure; with_pps: Figure; gain?: Figure };
}
/** A setting that `tune` would make. */
export interface Proposal {
  name: string;
  old: string;
  new: string;
  reason: string;
  command: string;
  effect?: string;
}
export interface PlanSheet {
  objective: string;
  proposals: Proposal[];
  notes: string[];
}
export interface Finding {
  host: { cpu: string; kernel: string; testbed: string; at?: string };
  setup: {
    scheme: string;
    traffic: { arrivals: string; size: string; link: string };
    socket_buffer_bytes?: number;
  };
  cliff_pps: ByEngine;
  binding?: string | null;
  loss_target: number;
  suggestions?: Suggestion[];
  sweep: SweepPoint[];
  provenance: { started_unix_s: number; command: string; version: string };
  partial: boolean;
}
export type Content =
  | { kind: "find"; finding: Finding; set: string[] | null; differs: string | null }
  | { kind: "records"; records: { point: Point; engine: string; outcome: Outcome }[]; set: string[] }
  | { kind: "host"; name: string; set: string[] }
  | {
      kind: "experiment";
      title: string;
      schemes: string[];
      point: Point | null;
      set: string[];
      loads_pps: [number, number] | null;
    }
  | { kind: "other"; command: string; document: unknown };

/** What a capture holds. */
export interface Captured {
  packets: number;
  rate_pps: number;
  mean_bytes: number;
  flows: number;
  notes: string[];
}

export interface Refused {
  part: string;
  text: string;
}
export type Reply<T> = { ok: T } | { error: Refused };

/** The question of crates/wasm's `Setting`. */
export interface Setting {
  host: string;
  set: string[];
  scheme: string;
  arrivals: string;
  size: string;
  link: string;
  queues: string | null;
  flows: string | null;
}

/** A `find` that is open on the page. */
export interface Measured {
  name: string;
  finding: Finding;
  /** Whether it is of the host that serves the page; null: a file, of which the page cannot know. */
  here: boolean | null;
  /** Why the page of the record has other cliffs for these costs; null: it has none. */
  differs: string | null;
  /** What the record asks, scheme by scheme ({@link untouched}). */
  asks: string | null;
}

export function value(figure: Figure | null | undefined): number | null {
  if (figure === null || figure === undefined) return null;
  return typeof figure === "number" ? figure : figure.value;
}
export function ends(figure: Figure | null | undefined): [number, number] | null {
  return figure === null || figure === undefined || typeof figure === "number" ? null : [figure.low, figure.high];
}
