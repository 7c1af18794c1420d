// The sliders: what can be turned, between which ends, and what it means.

import { HOST_KEYS, SCHEME_PARAMETERS, type Row } from "./rows";

export interface Knob {
  key: string;
  label: string;
  hint: string;
  kind: Row["kind"];
  low: number;
  high: number;
  /** What it is when nothing is said, where that is no figure of the preset. */
  absent?: string;
}

export interface Group {
  title: string;
  open: boolean;
  knobs: Knob[];
}

/** A slider of a row; its hint is the row's, unless that speaks of another row. */
function knob(key: string, row: Row, label: string, low: number, high: number, hint = row.help): Knob {
  return { key, label, hint, kind: row.kind, low, high, ...(row.value === "none" ? { absent: "none" } : {}) };
}
const cost = (key: keyof typeof HOST_KEYS, label: string, low = 10e-9, high = 100e-6, hint?: string): Knob =>
  knob(key, HOST_KEYS[key], label, low, high, hint);

export const GROUPS: Group[] = [
  {
    title: "Queues",
    open: true,
    knobs: [cost("socket_buffer", "Socket buffer", 1, 16384), cost("ring", "Ring or backlog", 1, 16384)],
  },
  {
    title: "Application",
    open: true,
    knobs: [
      cost("application", "Application", 50e-9),
      cost("context_switch", "Context switch"),
      cost("wakeup", "Wake-up"),
      cost(
        "cold_application",
        "Cold caches",
        10e-9,
        100e-6,
        "additional application time of a packet when the socket buffer is full",
      ),
    ],
  },
  {
    title: "Interrupts and polls",
    open: true,
    knobs: [
      cost("interrupt", "Interrupt"),
      cost("poll", "Poll"),
      cost("mask", "Mask"),
      cost("interrupt_latency", "Interrupt latency", 10e-9, 1e-3),
    ],
  },
  {
    title: "Protocol",
    open: false,
    knobs: [
      cost("protocol", "Protocol"),
      cost("per_byte", "Per byte", 10e-12, 100e-9),
      cost("cold_protocol", "Cold caches"),
    ],
  },
  {
    title: "Pauses of the CPU",
    open: false,
    knobs: [cost("pause", "Pause", 1e-6, 100e-3), cost("pause_every", "Time between", 100e-6, 10)],
  },
];

/** The preset's own figures, shown where nothing is set. */
export const PRESET: Record<string, string> = Object.fromEntries(
  Object.entries(HOST_KEYS).map(([key, row]) => [key, row.value]),
);

/** Sliders of the schemes' own parameters: label, lowest, highest, and a hint where the row's speaks of another scheme. */
const SLIDERS: Record<string, Record<string, [string, number, number, string?]>> = {
  polling: { period: ["Period", 1e-6, 10e-3], quota: ["Quota", 1, 1024] },
  "napi-2007": { period: ["Period", 1e-6, 10e-3], quota: ["Quota", 1, 1024] },
  napi: { weight: ["Weight", 1, 1024], rx_usecs: ["rx-usecs", 1e-6, 10e-3] },
  coalesce: { frames: ["Frames", 1, 256], usecs: ["usecs", 1e-6, 10e-3] },
  hybrid: {
    period: ["Period", 1e-6, 10e-3, "time between polls, above the rate at which polling starts"],
    quota: ["Quota", 1, 1024, "at most this many packets a poll"],
  },
};

/** Sliders by scheme. */
export const PARAMETERS: Record<string, Knob[]> = Object.fromEntries(
  Object.entries<Record<string, Row>>(SCHEME_PARAMETERS).map(([scheme, rows]) => [
    scheme,
    Object.entries(SLIDERS[scheme] ?? {}).flatMap(([key, [label, low, high, hint]]) => {
      const row = rows[key];
      return row ? [knob(key, row, label, low, high, hint)] : [];
    }),
  ]),
);

/** A parameter's value where a scheme does not name it. */
export function unset(scheme: string, key: string): string {
  const rows: Record<string, Record<string, Row>> = SCHEME_PARAMETERS;
  return rows[scheme.split(":")[0] ?? ""]?.[key]?.value ?? "none";
}

export const SCHEMES = [
  "ideal",
  "interrupt",
  "interrupt:drops_interrupt=false",
  "disable-enable",
  "polling:period=20us,quota=3",
  "napi-2007:period=20us,quota=3",
  "napi",
  "napi:weight=64,rx_usecs=50us",
  "napi:weight=64,backlog=true",
  "napi:threaded=true",
  "coalesce:frames=8,usecs=50us",
  "hybrid:period=20us,quota=3",
  "dim:profile=eqe,start=1",
];
export const ARRIVALS = ["poisson", "constant", "batch:size=8", "onoff", "mmpp:high=3,share=20%,burst=5ms"];
export const SIZES = ["64B", "128B", "256B", "512B", "1024B", "1518B", "imix", "mci1998-like"];
export const LINKS = ["100Mbit/s", "1Gbit/s", "10Gbit/s", "25Gbit/s", "100Gbit/s"];
export const SERVICES = [
  "exponential",
  "deterministic",
  "erlang:stages=4",
  "lognormal:cv=0.5",
  "hyperexponential:cv=2",
];

/** Starting points: each shows one thing. */
export interface Story {
  title: string;
  text: string;
  set: [string, string][];
  schemes: string[];
}
export const STORIES: Story[] = [
  {
    title: "Receive livelock",
    text: "Interrupts have priority over all other work: past the cliff the application gets no CPU time, and the delivered load falls to almost zero.",
    set: [
      ["application", "3us"],
      ["ring", "256"],
      ["socket_buffer", "256"],
    ],
    schemes: ["interrupt", "disable-enable", "polling:period=20us,quota=3"],
  },
  {
    title: "Coalescing",
    text: "One interrupt for several packets: the cliff is higher, but packets wait for the timer.",
    set: [
      ["application", "none"],
      ["ring", "256"],
    ],
    schemes: ["interrupt", "coalesce:frames=8,usecs=50us", "coalesce:frames=32,usecs=250us"],
  },
  {
    title: "Socket buffer",
    text: "Linux NAPI with an application of 3 us a packet: a larger socket buffer moves the cliff a little and the latency a lot.",
    set: [
      ["application", "3us"],
      ["wakeup", "1us"],
      ["context_switch", "2us"],
      ["socket_buffer", "64"],
    ],
    schemes: ["napi", "napi:weight=8"],
  },
];

/** Where a value lies on a slider of 1000 steps: 0 is nothing, the rest logarithmic. */
export const STEPS = 1000;
export function toStep(knob: Knob, value: number | null): number {
  if (value === null || value <= 0) return 0;
  const at = Math.log(value / knob.low) / Math.log(knob.high / knob.low);
  return Math.min(Math.max(Math.round(1 + at * (STEPS - 1)), 1), STEPS);
}
export function fromStep(knob: Knob, step: number): number {
  if (step <= 0) return 0;
  return knob.low * (knob.high / knob.low) ** ((step - 1) / (STEPS - 1));
}
