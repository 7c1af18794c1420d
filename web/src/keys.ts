// The sliders: what can be turned, between which ends, and what it means.

export type Kind = "time" | "count";

export interface Knob {
  key: string;
  label: string;
  hint: string;
  kind: Kind;
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

const time = (key: string, label: string, hint: string, high = 100e-6, low = 10e-9, absent?: string): Knob => ({
  key,
  label,
  hint,
  kind: "time",
  low,
  high,
  ...(absent === undefined ? {} : { absent }),
});
const count = (key: string, label: string, hint: string, low: number, high: number): Knob => ({
  key,
  label,
  hint,
  kind: "count",
  low,
  high,
});

export const GROUPS: Group[] = [
  {
    title: "Queues",
    open: true,
    knobs: [
      count("socket_buffer", "Socket buffer", "packets that the application's socket holds (SO_RCVBUF)", 1, 16384),
      count("ring", "Ring or backlog", "slots of the receive ring, or netdev_max_backlog", 1, 16384),
    ],
  },
  {
    title: "Application",
    open: true,
    knobs: [
      time("application", "Application", "CPU time of the application a packet", 100e-6, 50e-9, "none"),
      time("context_switch", "Context switch", "from a blocked application to a running one"),
      time("wakeup", "Wake-up", "what protocol processing spends to wake a blocked application"),
      time("cold_application", "Cold caches", "what a packet costs the application more when its socket is full"),
    ],
  },
  {
    title: "Interrupts and polls",
    open: true,
    knobs: [
      time("interrupt", "Interrupt", "mean time of one interrupt, entry and handler"),
      time("poll", "Poll", "overhead of one poll"),
      time("mask", "Mask", "one write to a register of the NIC"),
      time("interrupt_latency", "Interrupt latency", "from the cause of an interrupt to its handler", 1e-3),
    ],
  },
  {
    title: "Protocol",
    open: false,
    knobs: [
      time("protocol", "Protocol", "protocol processing a packet"),
      time("per_byte", "Per byte", "protocol processing a byte of frame", 100e-9, 10e-12),
      time("cold_protocol", "Cold caches", "what a packet costs the protocol more when the socket is full"),
    ],
  },
  {
    title: "Pauses of the CPU",
    open: false,
    knobs: [
      time("pause", "Pause", "mean length of the pauses in which the CPU is taken away", 100e-3, 1e-6, "none"),
      time("pause_every", "Every", "mean time from the end of a pause to the next", 10, 100e-6, "none"),
    ],
  },
];

/** Sliders of the schemes' own parameters. */
export const PARAMETERS: Record<string, Knob[]> = {
  ideal: [],
  interrupt: [],
  "disable-enable": [],
  polling: [
    time("period", "Period", "time between polls", 10e-3, 1e-6),
    count("quota", "Quota", "packets a poll at the most", 1, 1024),
  ],
  "napi-2007": [
    time("period", "Period", "time between polls", 10e-3, 1e-6),
    count("quota", "Quota", "packets a poll at the most", 1, 1024),
  ],
  napi: [
    count("weight", "Weight", "packets a poll at the most (dev_weight)", 1, 1024),
    time("rx_usecs", "rx-usecs", "an interrupt so long after the first packet", 10e-3, 1e-6),
  ],
  coalesce: [
    count("frames", "Frames", "an interrupt when so many frames are counted", 1, 256),
    time("usecs", "usecs", "an interrupt so long after the first packet", 10e-3, 1e-6),
  ],
  hybrid: [
    time("period", "Period", "time between polls", 10e-3, 1e-6),
    count("quota", "Quota", "packets a poll at the most", 1, 1024),
  ],
  dim: [],
};

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
    text: "Interrupts go before all else: past the cliff the application gets no CPU, and what is delivered falls to nothing.",
    set: [
      ["application", "3us"],
      ["ring", "256"],
      ["socket_buffer", "256"],
    ],
    schemes: ["interrupt", "disable-enable", "polling:period=20us,quota=3"],
  },
  {
    title: "Coalescing",
    text: "One interrupt for several packets: the cliff moves up, and each packet waits for the timer.",
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
