/* tslint:disable */
/* eslint-disable */

/**
 * What can be asked: version, presets, keys of hosts. Takes `{}`.
 */
export function about(question: string): string;

/**
 * Keeps a capture (pcap, pcapng) for questions that name it (`trace:NAME`), and says what it holds: [`captures::Taken`].
 */
export function capture(name: string, bytes: Uint8Array | number[]): string;

/**
 * Checks a question and says how netcliff writes it: [`answers::Checked`].
 */
export function check(question: string): string;

/**
 * The cliff by the model, and the bottleneck past it: [`answers::Fall`].
 */
export function cliff(question: string): string;

/**
 * The model at the loads of a sweep: [`answers::Curve`].
 */
export function predict(question: string): string;

/**
 * A load in simulation within milliseconds, for what moves with a slider: [`answers::CurvePoint`].
 */
export function preview(question: string): string;

/**
 * What a file holds that was dropped onto the page: a record, an experiment or a host, or what is wrong in it.
 */
export function read(question: string): string;

/**
 * Lines of `netcliff predict --rates ... --json`, one record a load.
 */
export function records(question: string): string;

/**
 * As `netcliff predict --cliff --sensitivities --json`.
 */
export function sensitivities(question: string): string;

/**
 * As `netcliff simulate --packets N --seed N --json`: one whole run, so that a caller who wants more asks again with more packets and
 * one who wants no more does not ask.
 */
export function simulate(question: string): string;

/**
 * The cliff in simulation, where the model has none: [`answers::SimulatedCliff`].
 */
export function simulated_cliff(question: string): string;

/**
 * A short run moment by moment: [`answers::Moments`].
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
