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

/** Loads that a curve has after one glance. */
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

function look({ settings, rates, queues, seed, part, parts, until_ms }: Look): Reply<Looked> {
  const checks = settings.map((setting) => ask<Checked>("check", { setting, rates }));
  const good = checks.map((reply) => ("ok" in reply ? reply.ok : null));
  const curves: CurvePoint[][] = settings.map(() => []);
  const first = good.find((one) => one !== null);
  // The simulator has one queue.
  if (first && queues === "") {
    const until = until_ms - performance.timeOrigin;
    const simulated = good.filter((one) => one?.sim === null).length;
    const each_ms = Math.max(until - performance.now(), 0) / ((simulated * CURVE) / parts);
    const packets = glancePackets(
      good.find((one) => one?.sim === null),
      each_ms * packets_per_ms,
    );
    let spent_ms = 0;
    let done = 0;
    for (const [number, load] of ordered(loadsOf(first, queues)).entries()) {
      if (number % parts !== part) continue;
      for (const [i, setting] of settings.entries()) {
        if (good[i]?.sim !== null) continue;
        const started = performance.now();
        // The first load is answered in any case.
        if (number >= parts && started + spent_ms / done > until) return { ok: { checks, curves } };
        preview(curves[i] ?? [], { setting, rate: pps(load, 12), packets, seed });
        spent_ms += performance.now() - started;
        done += 1;
        packets_per_ms = (done * packets) / Math.max(spent_ms, 0.1);
      }
    }
  }
  return { ok: { checks, curves } };
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
