// What is known of the present question, and the work that makes it better: a glance by the simulator while a slider moves, then cliffs
// and curves by the model, then the simulator's points with narrower and narrower intervals.

import { Engine, Pool, type Timed } from "./engine";
import { pps } from "./format";
import { loadsOf, ordered, spread } from "./loads";
import { setting, type State } from "./state";
import type { Looked } from "./worker";
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
  type Setting,
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
}

/** Answers at a load. */
export interface Sure {
  load_pps: number;
  model?: Outcome;
  sim?: Outcome;
}

/** Loads at which the simulator's intervals are shown. */
const SIM_LOADS = 8;
/** Arrivals of each simulated point, round by round: what `simulate --packets` takes. */
const ROUNDS = [10_000, 100_000, 1_000_000] as const;
/** A glance answers so long after a change at most: with the wait for a frame (17 ms) and the drawing, three schemes are seen within 50 ms. */
const GLANCE_MS = 18;
/** On a slower machine it answers earlier, so that the curves are seen so long after the change, but not before the least. */
const SEEN_MS = 45;
const LEAST_GLANCE_MS = 5;
/** Changes whose slowest drawing says how slow the machine is. */
const REMEMBERED = 8;
/** One engine's part of a glance waits so long for those of the others. */
const TOGETHER_MS = 4;
/** The first one has the engine's code to compile as well. */
const FIRST_GLANCE_MS = 150;
/** With the slider at rest: every load. */
const LONG_GLANCE_MS = 4000;
/** The model is stopped and gives way to the simulator where one load takes longer. */
const PATIENCE_MS = 1500;
/** After so long without a change the model begins. */
const REST_MS = 220;

export class Answers {
  schemes: SchemeAnswers[] = [];
  /** Loads of the sweep (pps). */
  loads: number[] = [];
  xMax = 1;
  busy = false;
  /** Those that answer while a slider moves; they are never stopped. One CPU is the page's: it lays out and paints meanwhile. */
  private readonly lookers: Engine[];
  private readonly pool: Pool;
  /** The load that was asked for last, and of which question. */
  private lookedAt = "";
  /** The question whose slider is at rest. */
  private resting = -1;
  private generation = 0;
  private running = false;
  private again: { state: State; changedAt: number } | null = null;
  private rest: ReturnType<typeof setTimeout> | undefined;
  /** From a change to its curves drawn (ms), for the tests. */
  readonly took_ms: number[] = [];
  /** The change whose curves are to be drawn next: when it was made, and how long its glance was allowed to take (ms). */
  private drawn: { changedAt: number; allowed_ms: number } | null = null;
  /** What the last changes took beyond that (ms). */
  private beyond_ms: number[] = [];

  constructor(
    private readonly changed: () => void,
    /** A glance is there: to be drawn at once. */
    private readonly glanced: () => void,
    readonly workers: number,
  ) {
    this.lookers = Array.from({ length: Math.min(workers, 3) }, () => new Engine());
    this.pool = new Pool(workers);
  }

  ask(call: Parameters<Engine["ask"]>[0], question: unknown): ReturnType<Engine["ask"]> {
    return (this.lookers[0] as Engine).ask(call, question);
  }

  /** The question has changed. */
  async update(state: State, changedAt = performance.now()): Promise<void> {
    if (this.running) {
      this.again = { state, changedAt };
      return;
    }
    this.running = true;
    clearTimeout(this.rest);
    const generation = ++this.generation;
    this.pool.clear();
    const known = new Map(this.schemes.map((one) => [one.scheme, one.cliff]));
    const allowed_ms = this.schemes.length === 0 ? performance.now() - changedAt + FIRST_GLANCE_MS : this.glance_ms();
    const parts = this.look(state, changedAt + allowed_ms);
    let begun = false;
    for (const part of parts) {
      void part.then(({ reply }) => {
        if (generation !== this.generation || "error" in reply) return;
        if (!begun) this.begin(state, reply.ok, known);
        this.add(reply.ok);
        // What comes late is drawn all the same.
        if (begun && !this.running) this.changed();
        begun = true;
      });
    }
    const pause = new Promise((resolve) => {
      void Promise.race(parts).then(() => setTimeout(resolve, TOGETHER_MS));
    });
    await Promise.race([Promise.all(parts), pause]);
    this.running = false;
    const checked = this.schemes.some((one) => one.checked);
    if (checked) this.drawn = { changedAt, allowed_ms };
    this.busy = checked;
    this.glanced();
    if (this.again) {
      const next = this.again;
      this.again = null;
      void this.update(next.state, next.changedAt);
      return;
    }
    this.rest = setTimeout(() => {
      void this.refine(state, generation);
    }, REST_MS);
  }

  private glance_ms(): number {
    return Math.min(Math.max(SEEN_MS - Math.max(0, ...this.beyond_ms), LEAST_GLANCE_MS), GLANCE_MS);
  }

  /** The curves of the last change are on the screen. */
  seen(): void {
    if (this.drawn === null) return;
    const { changedAt, allowed_ms } = this.drawn;
    this.drawn = null;
    const took_ms = performance.now() - changedAt;
    this.took_ms.push(took_ms);
    this.beyond_ms = [...this.beyond_ms, took_ms - allowed_ms].slice(-REMEMBERED);
  }

  /** Asks each looker for its part of the loads. */
  private look(state: State, until: number): Promise<Timed<Looked>>[] {
    const parts = this.lookers.length;
    return this.lookers.map((engine, part) => engine.ask<Looked>("look", this.question(state, part, parts, until)));
  }

  private question(state: State, part: number, parts: number, until: number): unknown {
    return {
      settings: state.schemes.map((scheme) => setting(state, scheme)),
      ...(state.rates === "" ? {} : { rates: state.rates }),
      queues: state.queues,
      seed: state.seed,
      part,
      parts,
      until_ms: performance.timeOrigin + until,
    };
  }

  /** New answers, still empty. */
  private begin(state: State, { checks }: Looked, known: Map<string, Cliff | null>): void {
    this.schemes = state.schemes.map((scheme, i) => {
      const reply = checks[i];
      return {
        scheme,
        checked: reply && "ok" in reply ? reply.ok : null,
        refused: reply && "error" in reply ? reply.error : null,
        glance: [],
        model: [],
        noModel: reply && "ok" in reply ? reply.ok.model : null,
        sim: new Map(),
        cliff: known.get(scheme) ?? null,
        noCliff: null,
        sensitivities: null,
      };
    });
    const checked = this.schemes.find((one) => one.checked)?.checked;
    if (!checked) return;
    this.loads = loadsOf(checked, state.queues);
    this.xMax = this.loads.at(-1) ?? 1;
  }

  private add({ curves }: Looked): void {
    this.schemes.forEach((one, i) => {
      one.glance = [...one.glance, ...(curves[i] ?? [])].sort((a, b) => a.load_pps - b.load_pps);
    });
  }

  /** A glance at every load. */
  private async longGlance(state: State, current: () => boolean): Promise<void> {
    if (!this.schemes.some((one) => one.checked?.sim === null) || state.queues !== "") return;
    const question = this.question(state, 0, 1, performance.now() + LONG_GLANCE_MS);
    const { reply } = await this.pool.ask<Looked>("look", question);
    if (!current() || !("ok" in reply)) return;
    const { curves } = reply.ok;
    this.schemes.forEach((one, i) => {
      if (one.checked?.sim === null) one.glance = (curves[i] ?? []).sort((a, b) => a.load_pps - b.load_pps);
    });
  }

  private async refine(state: State, generation: number): Promise<void> {
    this.resting = generation;
    const current = (): boolean => generation === this.generation;
    const redraw = (): void => {
      if (current()) this.changed();
    };
    const jobs: Promise<void>[] = [
      this.longGlance(state, current).then(() => {
        redraw();
      }),
    ];
    const [first, ...more] = ROUNDS;
    // The first points take a tenth of a second; the model may take seconds.
    jobs.push(this.bySimulation(state, first, current));
    for (const one of this.schemes) if (one.checked) jobs.push(this.byModel(state, one, current, redraw));
    for (const packets of more) jobs.push(this.bySimulation(state, packets, current));
    await Promise.all(jobs);
    if (!current()) return;
    this.busy = false;
    this.changed();
  }

  private async byModel(state: State, one: SchemeAnswers, current: () => boolean, redraw: () => void): Promise<void> {
    const asked = setting(state, one.scheme);
    if (one.noModel === null) {
      const first = this.loads[Math.floor(this.loads.length / 2)] ?? 1;
      const question = { setting: asked, rates: pps(first, 12) };
      const { reply } = await this.pool.ask<Curve>("predict", question, false, PATIENCE_MS);
      if (!current()) return;
      if ("ok" in reply) one.model = reply.ok.points;
      else if (reply.error.part !== "stopped") one.noModel = reply.error.text;
      else
        one.noModel = `the model takes longer than ${PATIENCE_MS / 1000} s a load for this setting: its simulated points replace it; netcliff predict computes the model's curve`;
      redraw();
    }
    const jobs: Promise<void>[] = [this.findCliff(state, one, current, redraw)];
    if (one.noModel === null) {
      for (const load of ordered(this.loads)) {
        jobs.push(this.predictAt(one, asked, load, current));
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

  private async bySimulation(state: State, packets: number, current: () => boolean): Promise<void> {
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
        jobs.push(this.simulateAt(one, question, load, current));
      }
    }
    await Promise.all(jobs);
  }

  private async predictAt(
    one: SchemeAnswers,
    asked: Setting,
    load: number,
    current: () => boolean,
    soon = false,
  ): Promise<void> {
    const { reply } = await this.pool.ask<Curve>("predict", { setting: asked, rates: pps(load, 12) }, soon);
    if (!current() || "error" in reply) return;
    const others = one.model.filter((p) => p.load_pps !== reply.ok.points[0]?.load_pps);
    one.model = [...others, ...reply.ok.points].sort((a, b) => a.load_pps - b.load_pps);
    this.changed();
  }

  private async simulateAt(
    one: SchemeAnswers,
    question: { setting: Setting; rate: string; seed: number; packets: number },
    load: number,
    current: () => boolean,
    soon = false,
  ): Promise<void> {
    const { reply } = await this.pool.ask<Simulated>("simulate", question, soon);
    if (!current() || "error" in reply) return;
    one.sim.set(question.rate, { load, outcome: reply.ok.outcome, packets: question.packets });
    this.changed();
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

  /** The load that is looked at is asked for once, when the cliffs are known and no slider moves. */
  lookAt(state: State, load: number): void {
    const rate = pps(load, 6);
    const waits = this.schemes.some((one) => one.checked && one.cliff === null && one.noCliff === null);
    if (waits || this.resting !== this.generation || this.lookedAt === `${this.generation} ${rate}`) return;
    this.lookedAt = `${this.generation} ${rate}`;
    const { generation } = this;
    const current = (): boolean => generation === this.generation;
    for (const one of this.schemes) {
      if (one.checked === null) continue;
      const asked = setting(state, one.scheme);
      const question = { setting: asked, rate, seed: state.seed, packets: ROUNDS[1] };
      if (one.checked.sim === null && !one.sim.has(rate)) void this.simulateAt(one, question, load, current, true);
      if (one.noModel === null) void this.predictAt(one, asked, load, current, true);
    }
  }

  /** What is known of a scheme for sure, by load: the model's outcome and the simulator's; no glance. */
  sure(one: SchemeAnswers): Map<string, Sure> {
    const known = new Map<string, Sure>();
    if (one.noModel === null)
      for (const { load_pps, outcome } of one.model) known.set(pps(load_pps, 6), { load_pps, model: outcome });
    for (const [key, { load, outcome }] of one.sim)
      known.set(key, { ...(known.get(key) ?? { load_pps: load }), sim: outcome });
    return known;
  }

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
