// One engine in a thread of its own: a question in, an answer out.

import * as engine from "../pkg/netcliff.js";
import type { Call } from "./engine";
import type { CurvePoint, Reply, Setting } from "./types";

interface Job {
  id: number;
  call: Call | "glance";
  question: unknown;
}

/** Several settings at several loads, until the time is used up; the loads in the order given, the settings in turn. */
interface Glance {
  settings: Setting[];
  loads: string[];
  packets: number;
  seed: number;
  budget_ms: number;
}

function ask<T>(call: Call, question: unknown): Reply<T> {
  return JSON.parse(engine[call](JSON.stringify(question))) as Reply<T>;
}

function glance({ settings, loads, packets, seed, budget_ms }: Glance): Reply<CurvePoint[][]> {
  const until = performance.now() + budget_ms;
  const found: CurvePoint[][] = settings.map(() => []);
  for (const rate of loads) {
    for (const [number, setting] of settings.entries()) {
      const reply = ask<CurvePoint>("preview", { setting, rate, packets, seed });
      if ("ok" in reply) found[number]?.push(reply.ok);
    }
    if (performance.now() > until) break;
  }
  return { ok: found };
}

self.onmessage = ({ data }: MessageEvent<{ module: WebAssembly.Module } | Job>) => {
  if ("module" in data) {
    engine.initSync({ module: data.module });
    self.postMessage({ ready: true });
    return;
  }
  const { id, call, question } = data;
  const started = performance.now();
  try {
    const reply = call === "glance" ? glance(question as Glance) : ask(call, question);
    self.postMessage({ id, reply, took_ms: performance.now() - started });
  } catch (error) {
    // A defect of the engine: it cannot be used any more.
    const text = `the engine stopped: ${String(error)}; please report it with the address of this page`;
    self.postMessage({ id, reply: { error: { part: "engine", text } }, took_ms: 0, dead: true });
  }
};
