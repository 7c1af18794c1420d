// What is asked, in the command line's own texts; it stands in the address as a fragment:
// #v1/explore?set=socket_buffer=64&scheme=napi:weight=64&scheme=interrupt

import type { Setting } from "./types";

export type View = "explore" | "watch" | "results";
export const VIEWS: View[] = ["explore", "watch", "results"];

export interface State {
  view: View;
  /** A preset. */
  host: string;
  /** Changes of the preset, by key. */
  set: Map<string, string>;
  schemes: string[];
  arrivals: string;
  size: string;
  link: string;
  queues: string;
  flows: string;
  /** Loads of the sweep; empty: up to past the cliff. */
  rates: string;
  /** The load that is looked at; empty: half the lowest cliff. */
  rate: string;
  seed: number;
}

export const MOST_SCHEMES = 4;
export const USUAL_SCHEMES = ["interrupt", "napi", "polling:period=20us,quota=3"];

export function initial(): State {
  return {
    view: "explore",
    host: "pentium4-2530mhz",
    set: new Map([
      ["application", "3us"],
      ["ring", "256"],
      ["socket_buffer", "256"],
    ]),
    schemes: [...USUAL_SCHEMES],
    arrivals: "poisson",
    size: "64B",
    link: "1Gbit/s",
    queues: "",
    flows: "",
    rates: "",
    rate: "",
    seed: 1,
  };
}

/** What would change a fragment's meaning is escaped, the rest stays readable. */
function escaped(text: string): string {
  return text.replace(/[%&#+\s"<>`\\^{}|\u0080-\uffff]/gu, (c) => encodeURIComponent(c));
}

export function toFragment(state: State): string {
  const parts: [string, string][] = [["host", state.host]];
  for (const [key, value] of state.set) parts.push(["set", `${key}=${value}`]);
  for (const scheme of state.schemes) parts.push(["scheme", scheme]);
  const rest: [string, string, string][] = [
    ["arrivals", state.arrivals, "poisson"],
    ["size", state.size, "64B"],
    ["link", state.link, "1Gbit/s"],
    ["queues", state.queues, ""],
    ["flows", state.flows, ""],
    ["rates", state.rates, ""],
    ["rate", state.rate, ""],
    ["seed", String(state.seed), "1"],
  ];
  for (const [key, value, usual] of rest) if (value !== usual) parts.push([key, value]);
  return `#v1/${state.view}?${parts.map(([key, value]) => `${key}=${escaped(value)}`).join("&")}`;
}

/** Reads a fragment. What it does not say is as usual; an error says what cannot be read. */
export function fromFragment(fragment: string): { state: State; error: string | null } {
  const state = initial();
  if (fragment === "" || fragment === "#") return { state, error: null };
  const found = /^#v(\d+)\/(\w+)(?:\?(.*))?$/s.exec(fragment);
  if (!found) return { state, error: "The address cannot be read: expected #v1/explore?scheme=napi&set=ring=256" };
  if (found[1] !== "1") {
    return { state, error: `The address is of version ${found[1] ?? "?"}; this page reads version 1: update netcliff` };
  }
  if (!VIEWS.includes(found[2] as View)) {
    return { state, error: `The address names the view "${found[2] ?? ""}": expected ${VIEWS.join(", ")}` };
  }
  state.view = found[2] as View;
  if (found[3] === undefined || found[3] === "") return { state, error: null };
  state.set = new Map();
  state.schemes = [];
  let error: string | null = null;
  for (const part of found[3].split("&")) {
    const at = part.indexOf("=");
    const key = part.slice(0, at);
    let value: string;
    try {
      value = decodeURIComponent(part.slice(at + 1));
    } catch {
      error = `The address has a damaged part: ${part}`;
      continue;
    }
    if (key === "set") {
      const equals = value.indexOf("=");
      if (equals > 0) state.set.set(value.slice(0, equals), value.slice(equals + 1));
      else error = `The address has set=${value}: expected set=KEY=VALUE`;
    } else if (key === "scheme") {
      if (state.schemes.length < MOST_SCHEMES) state.schemes.push(value);
    } else if (key === "seed") {
      if (/^\d{1,15}$/.test(value)) state.seed = Number(value);
      else error = `The address has seed=${value}: expected a whole number`;
    } else if (
      key === "host" ||
      key === "arrivals" ||
      key === "size" ||
      key === "link" ||
      key === "queues" ||
      key === "flows" ||
      key === "rates" ||
      key === "rate"
    ) {
      state[key] = value;
    } else {
      error = `The address has "${key}", which this page does not know`;
    }
  }
  if (state.schemes.length === 0) state.schemes = [...USUAL_SCHEMES];
  return { state, error };
}

export function setting(state: State, scheme: string): Setting {
  return {
    host: state.host,
    set: [...state.set].map(([key, value]) => `${key}=${value}`),
    scheme,
    arrivals: state.arrivals,
    size: state.size,
    link: state.link,
    queues: state.queues || null,
    flows: state.flows || null,
  };
}

/** A word of a POSIX shell. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** The equivalent command. */
export function command(state: State, scheme: string, name: string, more: string[]): string {
  const words = ["netcliff", name, "--host", state.host];
  for (const [key, value] of state.set) words.push("--set", `${key}=${value}`);
  words.push("--scheme", scheme);
  const rest: [string, string, string][] = [
    ["--arrivals", state.arrivals, "poisson"],
    ["--size", state.size, "64B"],
    ["--link", state.link, "1Gbit/s"],
    ["--queues", state.queues, ""],
    ["--flows", state.flows, ""],
  ];
  for (const [option, value, usual] of rest) if (value !== usual) words.push(option, value);
  return [...words, ...more].map(quoted).join(" ");
}
