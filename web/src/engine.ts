// Engines in workers: one that answers while a slider moves, and a pool for what takes longer.

import type { Captured, Reply } from "./types";

declare const WORKER_SOURCE: string;
declare global {
  /** The engine: base64 of gzip of the module (wasm.js). */
  var netcliffWasm: string | undefined;
}

export type Call =
  | "about"
  | "check"
  | "predict"
  | "cliff"
  | "sensitivities"
  | "simulate"
  | "simulated_cliff"
  | "preview"
  | "trace"
  | "records"
  | "read";

/** What the worker answers by several calls of the engine. */
export type Own = "look";

/** An answer, and how long it took. */
export interface Timed<T> {
  reply: Reply<T>;
  took_ms: number;
}
type Resolve = (answer: Timed<unknown>) => void;

/** Captures that were dropped, by name: every engine keeps them, one that starts anew, too. */
const captures = new Map<string, Uint8Array>();
const engines = new Set<Engine>();

/** Gives a capture to all engines, if it can be read. */
export async function takeCapture(name: string, bytes: Uint8Array): Promise<Reply<Captured>> {
  const [first, ...others] = engines;
  if (!first) return { error: { part: "engine", text: "no engine has started" } };
  const { reply } = await first.capture<Captured>(name, bytes);
  if ("ok" in reply) {
    captures.set(name, bytes);
    for (const engine of others) void engine.capture(name, bytes);
  }
  return reply;
}

let module: Promise<WebAssembly.Module> | undefined;
let source: string | undefined;

async function inflate(): Promise<WebAssembly.Module> {
  const text = globalThis.netcliffWasm;
  if (text === undefined) throw new Error("wasm.js is missing beside index.html: copy the whole folder");
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compile(await new Response(stream).arrayBuffer());
}

/** A worker with an engine. Questions are answered in their order. */
export class Engine {
  private worker: Worker | undefined;
  private readonly waiting = new Map<number, Resolve>();
  private next = 0;
  private ready: Promise<void>;

  constructor() {
    engines.add(this);
    this.ready = this.start();
  }

  private async start(): Promise<void> {
    module ??= inflate();
    source ??= URL.createObjectURL(new Blob([WORKER_SOURCE], { type: "text/javascript" }));
    const compiled = await module;
    const worker = new Worker(source);
    this.worker = worker;
    await new Promise<void>((resolve, reject) => {
      worker.onerror = (event) => {
        reject(new Error(event.message));
      };
      worker.onmessage = ({
        data,
      }: MessageEvent<{ ready?: boolean; id: number; reply: Reply<unknown>; took_ms: number; dead?: boolean }>) => {
        if (data.ready === true) {
          resolve();
          return;
        }
        this.waiting.get(data.id)?.({ reply: data.reply, took_ms: data.took_ms });
        this.waiting.delete(data.id);
        if (data.dead === true) this.restart();
      };
      worker.postMessage({ module: compiled });
    });
    for (const [name, bytes] of captures) worker.postMessage({ id: -1, name, bytes });
  }

  /** Keeps a capture. */
  async capture<T>(name: string, bytes: Uint8Array): Promise<Timed<T>> {
    return this.send<T>({ name, bytes });
  }

  get busy(): boolean {
    return this.waiting.size > 0;
  }

  /** Ends what is under way: its callers get an error. */
  restart(): void {
    this.worker?.terminate();
    const stopped = { reply: { error: { part: "stopped", text: "stopped" } }, took_ms: 0 };
    for (const resolve of this.waiting.values()) resolve(stopped);
    this.waiting.clear();
    this.ready = this.start();
  }

  async ask<T>(call: Call | Own, question: unknown): Promise<Timed<T>> {
    return this.send<T>({ call, question });
  }

  private async send<T>(job: object): Promise<Timed<T>> {
    await this.ready;
    const id = this.next++;
    return new Promise((resolve) => {
      this.waiting.set(id, resolve as Resolve);
      this.worker?.postMessage({ id, ...job });
    });
  }
}

/** Work in pieces by several engines; a piece begins when an engine is free, the first in the queue first. */
export class Pool {
  private readonly engines: Engine[];
  private readonly busy = new Set<Engine>();
  private queue: { call: Call | Own; question: unknown; resolve: Resolve; limit_ms: number | undefined }[] = [];

  constructor(size: number) {
    this.engines = Array.from({ length: size }, () => new Engine());
  }

  /** Forgets what is queued, and stops what is under way. */
  clear(): void {
    this.queue = [];
    for (const engine of this.busy) engine.restart();
    this.busy.clear();
  }

  /** `first`: before all that waits. After `limit_ms` it is stopped. */
  ask<T>(call: Call | Own, question: unknown, first = false, limit_ms?: number): Promise<Timed<T>> {
    return new Promise((resolve) => {
      this.queue[first ? "unshift" : "push"]({ call, question, resolve: resolve as Resolve, limit_ms });
      this.pump();
    });
  }

  private pump(): void {
    for (const engine of this.engines) {
      if (this.busy.has(engine)) continue;
      const next = this.queue.shift();
      if (!next) return;
      const { call, question, resolve, limit_ms } = next;
      this.busy.add(engine);
      let late = false;
      const stop = (): void => {
        late = true;
        engine.restart();
      };
      const timer = limit_ms === undefined ? undefined : setTimeout(stop, limit_ms);
      void engine.ask(call, question).then((answer) => {
        clearTimeout(timer);
        const stopped = "error" in answer.reply && answer.reply.error.part === "stopped";
        if (!stopped || late) this.busy.delete(engine);
        resolve(answer);
        this.pump();
      });
    }
  }
}
