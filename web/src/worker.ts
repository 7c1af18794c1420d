// One engine in a thread of its own: a question in, an answer out.

import * as engine from "../pkg/netcliff.js";
import type { Call, Own } from "./engine";
import { pps } from "./format";
import { glancePackets, loadsOf, ordered } from "./loads";
import type { Checked, CurvePoint, Reply, Setting } from "./types";

interface Job {
  id: number;
  call: Call | Own;
  question: unknown;
}
/** A capture to be kept. */
interface Kept {
  id: number;
  name: string;
  bytes: Uint8Array;
}

/** Loads that a glance plans for a curve. */
const CURVE = 8;
/** Packets that this engine simulated in a millisecond of its last glance. */
let packets_per_ms = 3000;

/** The checks of several settings and a glance at every `parts`th load from the `part`th on, in one question: a slider moves. */
interface Look {
  settings: Setting[];
  rates?: string;
  queues: string;
  seed: number;
  part: number;
  parts: number;
  /** When to answer (ms since the epoch). */
  until_ms: number;
}
export interface Looked {
  checks: Reply<Checked>[];
  /** One curve a setting. */
  curves: CurvePoint[][];
}

function ask<T>(call: Call, question: unknown): Reply<T> {
  return JSON.parse(engine[call](JSON.stringify(question))) as Reply<T>;
}

function preview(
  found: CurvePoint[],
  question: { setting: Setting; rate: string; packets: number; seed: number },
): void {
  const reply = ask<CurvePoint>("preview", question);
  if ("ok" in reply) found.push(reply.ok);
}

/** Short simulated runs, as long as there is time; the first load of the part is answered in any case. */
function glance({ settings, queues, seed, part, parts, until_ms }: Look, checks: (Checked | null)[]): CurvePoint[][] {
  const curves: CurvePoint[][] = settings.map(() => []);
  const simulated = [...settings.entries()].filter(([i]) => checks[i]?.sim === null);
  const first = checks.find((one) => one !== null);
  const one = simulated[0];
  // The simulator has one queue.
  if (!first || !one || queues !== "") return curves;
  const until = until_ms - performance.timeOrigin;
  const each_ms = Math.max(until - performance.now(), 0) / ((simulated.length * CURVE) / parts);
  const packets = glancePackets(checks[one[0]], each_ms * packets_per_ms);
  const loads = ordered(loadsOf(first, queues)).filter((_, number) => number % parts === part);
  const runs = loads.flatMap((load) => simulated.map(([i, setting]) => ({ i, setting, load })));
  const started = performance.now();
  for (const [done, { i, setting, load }] of runs.entries()) {
    const now = performance.now();
    if (done >= simulated.length && now + (now - started) / done > until) break;
    preview(curves[i] ?? [], { setting, rate: pps(load, 12), packets, seed });
    packets_per_ms = ((done + 1) * packets) / Math.max(performance.now() - started, 0.1);
  }
  return curves;
}

function look(asked: Look): Reply<Looked> {
  const checks = asked.settings.map((setting) => ask<Checked>("check", { setting, rates: asked.rates }));
  const good = checks.map((reply) => ("ok" in reply ? reply.ok : null));
  return { ok: { checks, curves: glance(asked, good) } };
}

function answer(job: Job | Kept): Reply<unknown> {
  if ("name" in job) return JSON.parse(engine.capture(job.name, job.bytes)) as Reply<unknown>;
  return job.call === "look" ? look(job.question as Look) : ask(job.call, job.question);
}

self.onmessage = ({ data }: MessageEvent<{ module: WebAssembly.Module } | Job | Kept>) => {
  if ("module" in data) {
    engine.initSync({ module: data.module });
    self.postMessage({ ready: true });
    return;
  }
  const { id } = data;
  const started = performance.now();
  try {
    const reply = answer(data);
    self.postMessage({ id, reply, took_ms: performance.now() - started });
  } catch (error) {
    // A defect of the engine: it cannot be used any more.
    const text = `the engine stopped: ${String(error)}; please report it with the address of this page`;
    self.postMessage({ id, reply: { error: { part: "engine", text } }, took_ms: 0, dead: true });
  }
};
