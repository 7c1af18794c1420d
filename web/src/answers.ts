// What is known of the present question, and the work that makes it better: a glance by the simulator while a slider moves, then cliffs
// and curves by the model, then the simulator's points with narrower and narrower intervals.

import { Engine, Pool } from "./engine";
import { pps, niceAbove } from "./format";
import { setting, type State } from "./state";
import {
  value,
  type Analysed,
  type Checked,
  type Curve,
  type CurvePoint,
  type Fall,
  type Outcome,
  type Refused,
  type Sampled,
  type Simulated,
} from "./types";

export interface Cliff {
  pps: number;
  band: [number, number] | null;
  by: "model" | "sim";
  livelock: number | null;
  binding: string | null;
}
export interface SchemeAnswers {
  scheme: string;
  checked: Checked | null;
  refused: Refused | null;
  glance: CurvePoint[];
  model: CurvePoint[];
  /** Why there is no model's curve; null: there is one, or there will be. */
  noModel: string | null;
  sim: Map<string, { load: number; outcome: Outcome; packets: number }>;
  cliff: Cliff | null;
  noCliff: string | null;
  sensitivities: Analysed | null;
  /** The model and the simulator at the load that is looked at. */
  at: Outcome | null;
}

/** Loads of a curve. */
const LOADS = 24;
/** Loads at which the simulator's intervals are shown. */
const SIM_LOADS = 8;
/** Arrivals of each simulated point, round by round: what `simulate --packets` takes. */
const ROUNDS = [10_000, 100_000, 1_000_000];
/** A glance takes no longer, so that three schemes are drawn within 50 ms of a slider's move. */
const GLANCE_MS = 26;
/** The first one has the engine's code to compile as well. */
const FIRST_GLANCE_MS = 150;
/** With the slider at rest: every load. */
const LONG_GLANCE_MS = 4000;
/** The model gives way to the simulator where one load takes longer. */
const PATIENCE_MS = 1500;
/** After so long without a change the model begins. */
const REST_MS = 220;

/** 0, 12, 6, 18, 3, ...: each next one halves the widest gap. */
export function spread(count: number): number[] {
  const bits = Math.ceil(Math.log2(count));
  const reverse = (i: number): number =>
    Number.parseInt(i.toString(2).padStart(bits, "0").split("").reverse().join(""), 2);
  return Array.from({ length: 1 << bits }, (_, i) => reverse(i)).filter((i) => i < count);
}

export class Answers {
  schemes: SchemeAnswers[] = [];
  /** Loads of the sweep (pps). */
  loads: number[] = [];
  xMax = 1;
  busy = false;
  private readonly live = new Engine();
  private readonly pool: Pool;
  private generation = 0;
  private running = false;
  private again: State | null = null;
  private rest: ReturnType<typeof setTimeout> | undefined;
  /** From a change to its curves drawn (ms), for the tests. */
  readonly took_ms: number[] = [];
  /** When the change was made whose curves are to be drawn next. */
  changedAt: number | null = null;

  constructor(
    private readonly changed: () => void,
    readonly workers: number,
  ) {
    this.pool = new Pool(workers);
  }

  ask(call: Parameters<Engine["ask"]>[0], question: unknown): ReturnType<Engine["ask"]> {
    return this.live.ask(call, question);
  }

  /** The question has changed. */
  async update(state: State, changedAt = performance.now()): Promise<void> {
    if (this.running) {
      this.again = state;
      return;
    }
    this.running = true;
    clearTimeout(this.rest);
    const generation = ++this.generation;
    this.pool.clear();
    const rates = state.rates === "" ? undefined : state.rates;
    const checks = await Promise.all(
      state.schemes.map((scheme) => this.live.ask<Checked>("check", { setting: setting(state, scheme), rates })),
    );
    const before = this.schemes;
    this.schemes = state.schemes.map((scheme, i) => {
      const reply = checks[i]?.reply;
      const old = before[i];
      return {
        scheme,
        checked: reply && "ok" in reply ? reply.ok : null,
        refused: reply && "error" in reply ? reply.error : null,
        glance: [],
        model: [],
        noModel: reply && "ok" in reply ? reply.ok.model : null,
        sim: new Map(),
        cliff: old?.scheme === scheme ? old.cliff : null,
        noCliff: null,
        sensitivities: null,
        at: null,
      };
    });
    const checked = this.schemes.find((one) => one.checked)?.checked;
    if (checked) {
      this.loads = checked.loads_pps.length > 1 ? checked.loads_pps : this.usualLoads(state, checked);
      this.xMax = this.loads.at(-1) ?? 1;
      await this.glance(state, before.length === 0 ? FIRST_GLANCE_MS : GLANCE_MS);
    }
    this.running = false;
    if (checked) this.changedAt = changedAt;
    if (this.again) {
      const next = this.again;
      this.again = null;
      this.changed();
      void this.update(next);
      return;
    }
    this.busy = checked !== undefined;
    this.changed();
    this.rest = setTimeout(() => {
      void this.refine(state, generation);
    }, REST_MS);
  }

  /** Up to past twice what the CPU can do. */
  private usualLoads(state: State, checked: Checked): number[] {
    const f = checked.figures;
    const packet = (f.protocol ?? 0) + (f.per_byte ?? 0) * (checked.frame_bytes ?? 64) + (f.application ?? 0);
    const queues = Math.max(1, Number.parseInt(state.queues, 10) || 1);
    const high = niceAbove((2 * queues) / Math.max(packet, 1e-9));
    return Array.from({ length: LOADS }, (_, i) => (high * (i + 1)) / LOADS);
  }

  private ordered(): number[] {
    return spread(this.loads.length).map((i) => this.loads[this.loads.length - 1 - i] ?? 0);
  }

  private async glance(state: State, budget_ms: number, by: Engine | Pool = this.live): Promise<boolean> {
    const able = this.schemes.filter((one) => one.checked?.sim === null);
    if (able.length === 0 || state.queues !== "") return false;
    const figures = able[0]?.checked?.figures;
    // Long enough to fill the socket and the ring twice beyond the cliff.
    const room = (figures?.socket_buffer ?? 0) * (figures?.application === undefined ? 0 : 1) + (figures?.ring ?? 0);
    const packets = Math.min(Math.max(3000, 4 * room), 30_000);
    const question = {
      settings: able.map((one) => setting(state, one.scheme)),
      loads: this.ordered().map((load) => pps(load, 12)),
      packets,
      seed: state.seed,
      budget_ms,
    };
    const { reply } = await by.ask<CurvePoint[][]>("glance", question);
    if (!("ok" in reply)) return false;
    able.forEach((one, i) => {
      one.glance = (reply.ok[i] ?? []).sort((a, b) => a.load_pps - b.load_pps);
    });
    return true;
  }

  private async refine(state: State, generation: number): Promise<void> {
    const current = (): boolean => generation === this.generation;
    const redraw = (): void => {
      if (current()) this.changed();
    };
    const jobs: Promise<void>[] = [
      this.glance(state, LONG_GLANCE_MS, this.pool).then(() => {
        redraw();
      }),
    ];
    for (const one of this.schemes) if (one.checked) jobs.push(this.byModel(state, one, current, redraw));
    for (const packets of ROUNDS) jobs.push(this.bySimulation(state, packets, current, redraw));
    await Promise.all(jobs);
    if (!current()) return;
    this.busy = false;
    this.changed();
  }

  private async byModel(state: State, one: SchemeAnswers, current: () => boolean, redraw: () => void): Promise<void> {
    const asked = setting(state, one.scheme);
    if (one.noModel === null) {
      const first = this.loads[Math.floor(this.loads.length / 2)] ?? 1;
      const { reply, took_ms } = await this.pool.ask<Curve>("predict", { setting: asked, rates: pps(first, 12) });
      if (!current()) return;
      if ("error" in reply) one.noModel = reply.error.text;
      else {
        one.model = reply.ok.points;
        if (took_ms > PATIENCE_MS)
          one.noModel = `the model takes ${(took_ms / 1000).toFixed(1)} s a load for this setting: the simulator stands in; the command line has the model's curve`;
      }
      redraw();
    }
    const jobs: Promise<void>[] = [this.findCliff(state, one, current, redraw)];
    if (one.noModel === null) {
      for (const load of this.ordered()) {
        jobs.push(
          this.pool.ask<Curve>("predict", { setting: asked, rates: pps(load, 12) }).then(({ reply }) => {
            if (!current() || "error" in reply) return;
            one.model = [
              ...one.model.filter((p) => p.load_pps !== reply.ok.points[0]?.load_pps),
              ...reply.ok.points,
            ].sort((a, b) => a.load_pps - b.load_pps);
            redraw();
          }),
        );
      }
    }
    await Promise.all(jobs);
  }

  private async findCliff(state: State, one: SchemeAnswers, current: () => boolean, redraw: () => void): Promise<void> {
    const asked = setting(state, one.scheme);
    if (one.noModel === null) {
      const { reply } = await this.pool.ask<Fall>("cliff", { setting: asked }, true);
      if (!current()) return;
      if ("ok" in reply) {
        const { cliff_pps, livelock, binding } = reply.ok;
        one.cliff = { pps: cliff_pps, band: null, by: "model", livelock, binding };
      } else {
        one.cliff = null;
        one.noCliff = reply.error.text;
      }
    } else {
      const { reply } = await this.pool.ask<{ cliff_pps: Sampled | number; binding: string | null }>(
        "simulated_cliff",
        {
          setting: asked,
          seed: state.seed,
          packets: 300_000,
        },
        true,
      );
      if (!current()) return;
      if ("ok" in reply) {
        const found = reply.ok.cliff_pps;
        const band: [number, number] | null = typeof found === "number" ? null : [found.low, found.high];
        one.cliff = { pps: value(found) ?? 0, band, by: "sim", livelock: null, binding: reply.ok.binding };
      } else {
        one.cliff = null;
        one.noCliff = reply.error.text;
      }
    }
    redraw();
  }

  private async bySimulation(state: State, packets: number, current: () => boolean, redraw: () => void): Promise<void> {
    const loads = spread(SIM_LOADS).map((i) => {
      const at = Math.round(((SIM_LOADS - i) * this.loads.length) / SIM_LOADS) - 1;
      return this.loads[Math.max(at, 0)] ?? 1;
    });
    const jobs: Promise<void>[] = [];
    for (const load of loads) {
      for (const one of this.schemes) {
        if (one.checked?.sim !== null) continue;
        const rate = pps(load, 6);
        const question = { setting: setting(state, one.scheme), rate, seed: state.seed, packets };
        jobs.push(
          this.pool.ask<Simulated>("simulate", question).then(({ reply }) => {
            if (!current() || "error" in reply) return;
            one.sim.set(rate, { load, outcome: reply.ok.outcome, packets });
            redraw();
          }),
        );
      }
    }
    await Promise.all(jobs);
  }

  /** How the cliff moves with each cost; takes some fifty times as long as a cliff. */
  async sensitivities(state: State, number: number): Promise<string | null> {
    const one = this.schemes[number];
    if (!one) return null;
    const generation = this.generation;
    const { reply } = await this.pool.ask<Analysed>("sensitivities", { setting: setting(state, one.scheme) });
    if (generation !== this.generation) return null;
    if ("error" in reply) return reply.error.part === "stopped" ? null : reply.error.text;
    one.sensitivities = reply.ok;
    this.changed();
    return null;
  }

  /** The best that is known of a load: the model, else the simulator, else a glance. */
  /** A figure at a load: the curve's own, or, where the model does not compute it, the glance's. */
  figure(one: SchemeAnswers, point: CurvePoint, read: (outcome: Outcome) => number | null): number | null {
    const own = read(point.outcome);
    if (own !== null) return own;
    const near = one.glance.find((p) => Math.abs(p.load_pps / point.load_pps - 1) < 1e-5);
    return near ? read(near.outcome) : null;
  }

  curve(one: SchemeAnswers): { points: CurvePoint[]; by: "model" | "glance" | "sim" } {
    if (one.noModel === null && one.model.length > 0) {
      const known = new Set(one.model.map((p) => p.load_pps.toPrecision(6)));
      const rest = one.glance.filter((p) => !known.has(p.load_pps.toPrecision(6)));
      const points = [...one.model, ...rest].sort((a, b) => a.load_pps - b.load_pps);
      return { points, by: rest.length === 0 ? "model" : "glance" };
    }
    const sim = [...one.sim.values()].map(({ load, outcome }) => ({ load_pps: load, outcome }));
    if (sim.length > 0) {
      const known = new Set(sim.map((p) => p.load_pps.toPrecision(6)));
      const points = [...sim, ...one.glance.filter((p) => !known.has(p.load_pps.toPrecision(6)))];
      return { points: points.sort((a, b) => a.load_pps - b.load_pps), by: "sim" };
    }
    return { points: one.glance, by: "glance" };
  }
}
