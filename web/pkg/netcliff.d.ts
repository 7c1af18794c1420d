/* tslint:disable */
/* eslint-disable */

/**
 * Returns version, presets and keys of hosts. Takes `{}`.
 */
export function about(question: string): string;

/**
 * Stores a capture (pcap, pcapng) for questions that name it (`trace:NAME`), and returns a summary:
 * [`captures::Taken`].
 */
export function capture(name: string, bytes: Uint8Array | number[]): string;

/**
 * Checks a question and returns it in netcliff's own notation: [`answers::Checked`].
 */
export function check(question: string): string;

/**
 * Computes the cliff by the model, and the bottleneck beyond it: [`answers::Fall`].
 */
export function cliff(question: string): string;

/**
 * Evaluates the model at the loads of a sweep: [`answers::Curve`].
 */
export function predict(question: string): string;

/**
 * Simulates a load within milliseconds, e.g. while the user moves a slider: [`answers::CurvePoint`].
 */
export function preview(question: string): string;

/**
 * Parses a file dropped onto the page: a record, an experiment or a host. Otherwise returns what is wrong in it.
 */
export function read(question: string): string;

/**
 * Returns the output lines of `netcliff predict --rates ... --json`, one record per load.
 */
export function records(question: string): string;

/**
 * Like `netcliff predict --cliff --sensitivities --json`.
 */
export function sensitivities(question: string): string;

/**
 * Like `netcliff simulate --packets N --seed N --json`. Each call is one complete run; for a longer run, call it again
 * with more packets.
 */
export function simulate(question: string): string;

/**
 * Searches for the cliff by simulation, for settings without a model: [`answers::SimulatedCliff`].
 */
export function simulated_cliff(question: string): string;

/**
 * Simulates a short run event by event: [`answers::Moments`].
 */
export function trace(question: string): string;

export type InitInput = RequestInfo | URL | Response | BufferSource | WebAssembly.Module;

export interface InitOutput {
    readonly memory: WebAssembly.Memory;
    readonly about: (a: number, b: number) => [number, number];
    readonly capture: (a: number, b: number, c: number, d: number) => [number, number];
    readonly check: (a: number, b: number) => [number, number];
    readonly cliff: (a: number, b: number) => [number, number];
    readonly predict: (a: number, b: number) => [number, number];
    readonly preview: (a: number, b: number) => [number, number];
    readonly read: (a: number, b: number) => [number, number];
    readonly records: (a: number, b: number) => [number, number];
    readonly sensitivities: (a: number, b: number) => [number, number];
    readonly simulate: (a: number, b: number) => [number, number];
    readonly simulated_cliff: (a: number, b: number) => [number, number];
    readonly trace: (a: number, b: number) => [number, number];
    readonly __wbindgen_externrefs: WebAssembly.Table;
    readonly __wbindgen_malloc: (a: number, b: number) => number;
    readonly __wbindgen_realloc: (a: number, b: number, c: number, d: number) => number;
    readonly __wbindgen_free: (a: number, b: number, c: number) => void;
    readonly __wbindgen_start: () => void;
}

export type SyncInitInput = BufferSource | WebAssembly.Module;

/**
 * Instantiates the given `module`, which can either be bytes or
 * a precompiled `WebAssembly.Module`.
 *
 * @param {{ module: SyncInitInput }} module - Passing `SyncInitInput` directly is deprecated.
 *
 * @returns {InitOutput}
 */
export function initSync(module: { module: SyncInitInput } | SyncInitInput): InitOutput;

/**
 * If `module_or_path` is {RequestInfo} or {URL}, makes a request and
 * for everything else, calls `WebAssembly.instantiate` directly.
 *
 * @param {{ module_or_path: InitInput | Promise<InitInput> }} module_or_path - Passing `InitInput` directly is deprecated.
 *
 * @returns {Promise<InitOutput>}
 */
export default function __wbg_init (module_or_path: { module_or_path: InitInput | Promise<InitInput> } | InitInput | Promise<InitInput>): Promise<InitOutput>;
