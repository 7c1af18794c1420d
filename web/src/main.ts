// The page: views, address, theme, files.

import { byId, fill, h, say } from "./dom";
import { Explore } from "./explore";
import { takeCapture } from "./engine";
import { hostName, rate } from "./format";
import { isCapture, open, openCapture } from "./open";
import { Results, type Opening } from "./results";
import { VIEWS, fromFragment, initial, setting, toFragment, type State, type View } from "./state";
import { value, type Content, type Figure, type Reply } from "./types";
import { Watch } from "./watch";

const TITLES: Record<View, string> = { explore: "Explore", watch: "Watch one host work", results: "Results" };
/** Changes within this time are one step of the browser's history. */
const ONE_STEP_MS = 1000;

function start(): void {
  const read = fromFragment(location.hash);
  let state: State = read.state;
  let pushedAt = -Infinity;
  let own = "";
  const message = byId("message");
  say(message, read.error ?? "");

  const workers = Math.max(1, Math.min((navigator.hardwareConcurrency || 2) - 1, 6));
  const explore = new Explore(
    state,
    (next) => {
      change(next);
    },
    workers,
  );
  const watch = new Watch((next) => {
    change(next);
  });
  const results = new Results({
    open: (run) => {
      void record(run);
    },
    listed: (runs) => {
      explore.controls.records(runs);
    },
  });
  explore.controls.onRecord = (run) => {
    void record(run);
  };
  explore.onRemove = () => {
    measuredBy(null);
    navigation();
  };

  let shown: View | null = null;
  function change(next: State, replace = false): void {
    state = next;
    if (shown !== "explore" || state.view !== "explore") {
      address(replace);
      show();
      return;
    }
    // What the page lays out anew before the curves are drawn, it does instead of drawing them.
    explore.ask(state, performance.now(), () => {
      address(replace);
      navigation();
      explore.controls.show(state);
    });
  }

  function address(replace: boolean): void {
    const fragment = toFragment(state);
    if (fragment === location.hash) return;
    own = fragment;
    const now = performance.now();
    // Dragging a slider is one step back, not a hundred.
    if (replace || now - pushedAt < ONE_STEP_MS) history.replaceState(null, "", fragment);
    else history.pushState(null, "", fragment);
    pushedAt = now;
  }

  function show(): void {
    if (shown !== state.view) {
      shown = state.view;
      watch.stop();
      const view = { explore, watch, results }[state.view];
      fill(byId("main"), view.element);
      if (state.view === "results") void results.refresh();
    }
    navigation();
    if (state.view === "explore") explore.show(state);
    if (state.view === "watch") void watch.show(state, (call, question) => explore.answers.ask(call, question));
  }

  /** What is open: the same in the heading of the page and, in Explore, as its title. */
  function headline(text: string): void {
    say(byId("host"), text);
    document.title = state.view === "explore" ? text : `netcliff: ${TITLES[state.view]}`;
  }

  function navigation(): void {
    headline(opened());
    links();
  }

  function links(): void {
    fill(
      byId("views"),
      ...VIEWS.map((view) =>
        h(
          "a",
          { href: toFragment({ ...state, view }), ...(view === state.view ? { "aria-current": "page" } : {}) },
          TITLES[view],
        ),
      ),
    );
  }

  /** What the figures are of. */
  function opened(): string {
    const { finding } = explore;
    if (finding) return measured(finding.finding.host.cpu, finding.here, finding.finding.cliff_pps.wire);
    return isStart() ? "starting point: a Pentium 4 of 2003" : "costs set on this page";
  }

  /** The address names the run of the store whose points are shown, so that loading it anew shows them. */
  function measuredBy(run: string | null): void {
    const search = run === null ? "" : `?run=${run}`;
    if (location.search !== search) history.replaceState(null, "", location.pathname + search + location.hash);
    explore.controls.record(run);
  }

  /** Opens a run of the store; `keeps`: what of the address stays as it is. */
  async function record(run: string, keeps: Keeps = {}, why: string | null = null): Promise<void> {
    const stored = await results.stored(run);
    if (typeof stored === "string") say(message, stored);
    else await take(`find run ${run}`, stored.text, { run, here: stored.here }, keeps, why);
    if (shown === null) show();
  }

  async function take(
    name: string,
    text: string,
    origin: { run: string; here: boolean | null } | null = null,
    keeps: Keeps = {},
    why: string | null = null,
  ): Promise<void> {
    const { reply } = await explore.answers.ask("read", { name, text });
    const taken = open(name, reply, state);
    say(message, why === null ? taken.message : `${taken.message} Why this run: ${why}.`);
    if (taken.finding) {
      const asks = taken.state && JSON.stringify(setting(taken.state, taken.finding.setup.scheme));
      const { finding, differs = null } = taken;
      explore.finding = { name, finding, here: origin?.here ?? null, differs, asks };
      measuredBy(origin?.run ?? null);
    }
    if (taken.state) {
      const { view, rates } = state;
      const next = keeps.question ? { ...state, rates: rates || taken.state.rates } : taken.state;
      change(keeps.view ? { ...next, view } : next, keeps.view);
    }
    navigation();
    results.opened(name, reply as Reply<Content>);
    explore.draw();
  }

  async function file(dropped: File): Promise<void> {
    if (dropped.size > 32 << 20) {
      const text = `${dropped.name}: is larger than 32 MiB; expected a record, an experiment, a host file or a capture`;
      say(message, text);
      results.opened(dropped.name, { error: { part: "file", text } });
      return;
    }
    const bytes = new Uint8Array(await dropped.arrayBuffer());
    if (!isCapture(bytes)) {
      await take(dropped.name, new TextDecoder().decode(bytes));
      return;
    }
    const reply = await takeCapture(dropped.name, bytes);
    const taken = openCapture(dropped.name, reply, state);
    say(message, taken.message);
    if (taken.state) change(taken.state);
    results.opened(dropped.name, "error" in reply ? reply : { ok: { kind: "capture" } });
  }
  explore.controls.onFile = (dropped) => {
    void file(dropped);
  };

  const curtain = byId("drop");
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    curtain.hidden = false;
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) curtain.hidden = true;
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    curtain.hidden = true;
    for (const dropped of event.dataTransfer?.files ?? []) void file(dropped);
  });
  addEventListener("hashchange", () => {
    if (location.hash === own || location.hash === "#main") return;
    const next = fromFragment(location.hash);
    say(message, next.error ?? "");
    state = next.state;
    own = location.hash;
    show();
  });
  addEventListener("popstate", () => {
    own = "";
  });
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
  theme();
  // For the browser tests: how long changes took to be drawn, whether work is under way, and an engine.
  const { answers } = explore;
  Object.assign(globalThis, {
    netcliffPage: { took_ms: answers.took_ms, busy: () => answers.busy, ask: answers.ask.bind(answers) },
  });
  void begin();

  async function begin(): Promise<void> {
    const run = new URLSearchParams(location.search).get("run");
    // Only a question that is seen is one: an address of another view with the starting point begins with this host as well.
    const asks = location.hash !== "" && (state.view === "explore" || !isStart());
    if (asks || state.view !== "explore") show();
    else links();
    if (run !== null) {
      await record(run, { question: asks, view: true });
      return;
    }
    if (asks) return;
    const begun = toFragment(state);
    const opening = await results.opening();
    if (toFragment(state) !== begun) return;
    if (opening === null || opening.run === null) {
      if (shown === null) show();
      if (opening !== null) say(message, unmeasured(opening));
      return;
    }
    headline(measured(opening.host, opening.here, opening.cliff_pps));
    await record(String(opening.run), { view: true }, opening.why);
  }

  function isStart(): boolean {
    return toFragment({ ...initial(), view: state.view }) === toFragment(state);
  }
}

/** What of an address stays when a record is opened: its question, its view. */
interface Keeps {
  question?: boolean;
  view?: boolean;
}

/** A host with its cliff: "2 x AMD EPYC, measured 342 kpps". */
function measured(host: string, here: boolean | null, cliff_pps: Figure | null | undefined): string {
  const cliff = value(cliff_pps);
  return `${hostName(host, here)}, ${cliff === null ? "no cliff measured" : `measured ${rate(cliff)}`}`;
}

function unmeasured({ host, why }: Opening): string {
  return `${host} was not measured yet (${why ?? "the store is empty"}): netcliff find measures it. Until then the page shows a preset, a Pentium 4 of 2003.`;
}

function theme(): void {
  const button = byId("theme");
  const names = ["auto", "light", "dark"];
  const set = (name: string): void => {
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    say(button, `Theme: ${name}`);
    button.setAttribute("aria-label", `Colours: ${name === "auto" ? "as the system" : name}`);
    try {
      localStorage.setItem("netcliff-theme", name);
    } catch {
      // A page from a folder may have no storage: the choice lasts as long as the page.
    }
  };
  let now = "auto";
  try {
    now = localStorage.getItem("netcliff-theme") ?? "auto";
  } catch {
    // As above.
  }
  set(names.includes(now) ? now : "auto");
  button.addEventListener("click", () => {
    now = names[(names.indexOf(now) + 1) % names.length] ?? "auto";
    set(now);
  });
}

try {
  start();
} catch (error) {
  say(byId("message"), `The page cannot start: ${String(error)}`);
}
