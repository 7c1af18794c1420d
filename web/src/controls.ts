// What can be turned: starting points, schemes, costs, traffic.

import { fill, h, say } from "./dom";
import { digits, hostName, rate, seconds, time } from "./format";
import {
  ARRIVALS,
  GROUPS,
  LINKS,
  PARAMETERS,
  PRESET,
  SCHEMES,
  SERVICES,
  SIZES,
  STEPS,
  STORIES,
  fromStep,
  toStep,
  type Knob,
  unset,
} from "./keys";
import { MOST_SCHEMES, type State } from "./state";
import type { Run } from "./results";
import { value, type Refused } from "./types";

const KNOBS = new Set(GROUPS.flatMap((group) => group.knobs.map((knob) => knob.key)));

function figure(knob: Knob, text: string): number | null {
  if (text === "none") return null;
  return knob.kind === "time" ? seconds(text) : Number(text);
}

interface Dial {
  slider: HTMLInputElement;
  text: HTMLInputElement;
  error: HTMLElement;
  knob: Knob;
}

/** A slider beside a number with its unit. */
function dial(knob: Knob, id: string, set: (value: string) => void): { row: HTMLElement; dial: Dial } {
  const slider = h("input", {
    type: "range",
    min: 0,
    max: STEPS,
    step: 1,
    id: `${id}-slider`,
    "aria-label": `${knob.label}: slider`,
  });
  const text = h("input", {
    type: "text",
    id,
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": `${id}-hint ${id}-error`,
  });
  const error = h("div", { class: "error", id: `${id}-error` });
  slider.addEventListener("input", () => {
    const value = fromStep(knob, Number(slider.value));
    if (value === 0 && knob.absent !== undefined) set(knob.absent);
    else if (knob.kind === "count") set(String(Math.max(1, Math.round(Number(digits(value, value < 100 ? 2 : 3))))));
    else set(time(value));
  });
  text.addEventListener("focus", () => {
    text.value = text.dataset.exact ?? text.value;
  });
  text.addEventListener("blur", () => {
    text.value = brief(knob, text.dataset.exact ?? text.value);
  });
  text.addEventListener("change", () => {
    const typed = text.value.trim();
    text.dataset.exact = typed;
    set(typed === "" ? (knob.absent ?? "0s") : typed);
  });
  const row = h(
    "div",
    { class: "knob" },
    h("label", { for: id }, knob.label),
    slider,
    text,
    h("div", { class: "hint", id: `${id}-hint` }, knob.hint),
    error,
  );
  return { row, dial: { slider, text, error, knob } };
}

/** Measured costs have sixteen digits, of which four are read. */
function brief(knob: Knob, text: string): string {
  const value = knob.kind === "time" && text.length > 8 ? figure(knob, text) : null;
  return value === null || Number.isNaN(value) ? text : time(value, 4);
}

/** Shows a text, unless the user is typing another one there. */
function write(input: HTMLInputElement, text: string): void {
  if (input.dataset.typed === undefined && input.value !== text) input.value = text;
}

/** Marks the fields in which somebody is typing: between the first key and Enter, or the field left. */
function watchTyping(element: HTMLElement): void {
  const mark = (typed: boolean) => (event: Event) => {
    if (!(event.target instanceof HTMLInputElement)) return;
    if (typed) event.target.dataset.typed = "";
    else delete event.target.dataset.typed;
  };
  // Before the field's own listeners, which may show it anew.
  element.addEventListener("input", mark(true), true);
  element.addEventListener("change", mark(false), true);
  element.addEventListener("focusout", mark(false), true);
}

function turn({ slider, text, knob }: Dial, shown: string): void {
  text.dataset.exact = shown;
  text.title = shown;
  const wanted = document.activeElement === text ? shown : brief(knob, shown);
  if (text.value.trim() !== wanted) write(text, wanted);
  const step = String(toStep(knob, figure(knob, shown)));
  if (slider.value !== step && document.activeElement !== slider) slider.value = step;
  slider.setAttribute("aria-valuetext", shown);
}

export class Controls {
  readonly element: HTMLElement;
  private state: State;
  private readonly dials = new Map<string, Dial>();
  private readonly schemes = h("div", { id: "schemes" });
  private readonly story = h("p", { class: "story" });
  private readonly fields = new Map<string, { input: HTMLInputElement; error: HTMLElement }>();
  private readonly otherError = h("div", { class: "error" });
  private readonly other = h("input", {
    type: "text",
    id: "other",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "tick=1ms transmit=500ns",
  });
  private readonly fileButton = h("input", {
    type: "file",
    id: "file",
    class: "offscreen",
    accept: ".json,.jsonl,.toml,.txt,.pcap,.pcapng,.cap",
  });
  private schemeErrors: HTMLElement[] = [];
  private schemeDials: Map<string, Dial>[] = [];
  private drawnSchemes = "";

  onFile: (file: File) => void = () => undefined;
  onRecord: (run: string) => void = () => undefined;
  private readonly recordList = h("select", { id: "record" });
  private readonly recordRow = h(
    "div",
    { class: "field record", hidden: true },
    h("label", { for: "record" }, "Record"),
    this.recordList,
  );

  constructor(
    state: State,
    private readonly change: (state: State) => void,
  ) {
    this.state = state;
    this.element = h("section", { class: "controls", "aria-label": "Host, schemes and traffic" });
    const lists = [
      ["scheme-list", SCHEMES],
      ["arrivals-list", ARRIVALS],
      ["size-list", SIZES],
      ["link-list", LINKS],
      ["service-list", SERVICES],
    ] as const;
    this.recordList.addEventListener("change", () => {
      if (this.recordList.value !== "") this.onRecord(this.recordList.value);
    });
    this.fileButton.addEventListener("change", () => {
      const file = this.fileButton.files?.[0];
      if (file) this.onFile(file);
      this.fileButton.value = "";
    });
    const start = h(
      "div",
      { class: "row" },
      ...STORIES.map((story) =>
        h(
          "button",
          {
            type: "button",
            click: () => {
              this.tell(story.title);
            },
          },
          story.title,
        ),
      ),
      h(
        "button",
        {
          type: "button",
          click: () => {
            this.set({ set: new Map() });
            say(this.story, "Preset pentium4-2530mhz: a Pentium 4 of 2003 at 2.53 GHz, without an application.");
          },
        },
        "Pentium 4",
      ),
      h(
        "button",
        {
          type: "button",
          id: "open",
          click: () => {
            this.fileButton.click();
          },
        },
        "Open a record…",
      ),
      this.fileButton,
    );
    this.fileButton.tabIndex = -1;
    this.fileButton.setAttribute("aria-label", "Record, experiment, host file or capture");
    say(
      this.story,
      "Drop the output of netcliff find --json onto the page: the measured points of your host stay while you change its costs.",
    );
    fill(
      this.element,
      h("h2", {}, "Starting points"),
      this.recordRow,
      start,
      this.story,
      h("h2", {}, "Schemes, side by side"),
      this.schemes,
      h("h2", {}, "Host"),
      ...GROUPS.map((group) => this.group(group.title, group.open, group.knobs)),
      this.traffic(),
      ...lists.map(([id, values]) => h("datalist", { id }, ...values.map((value) => h("option", { value })))),
    );
    watchTyping(this.element);
    this.show(state);
  }

  /** The hosts that the store has records of. */
  records(runs: Run[]): void {
    const chosen = this.recordList.value;
    const finds = runs.filter((run) => run.here !== null);
    const option = ({ id, host, here, cliff_pps, started_unix_s }: Run): HTMLElement => {
      const cliff = value(cliff_pps);
      const day = new Date(started_unix_s * 1000).toISOString().slice(0, 10);
      const text = `run ${id}: ${cliff === null ? "none measured" : rate(cliff)}, ${day}`;
      return h("option", { value: id }, here === true ? text : `${text}, ${hostName(host, here)}`);
    };
    fill(this.recordList, h("option", { value: "" }, "none"), ...finds.map(option));
    this.recordList.value = chosen;
    this.recordRow.hidden = finds.length === 0;
  }

  /** The record that is open; null: none of the store. */
  record(run: string | null): void {
    this.recordList.value = run ?? "";
  }

  private tell(title: string): void {
    const story = STORIES.find((one) => one.title === title);
    if (!story) return;
    say(this.story, story.text);
    this.set({ set: new Map(story.set), schemes: [...story.schemes], rate: "", rates: "" });
  }

  private set(change: Partial<State>): void {
    this.state = { ...this.state, ...change };
    this.change(this.state);
  }

  private setKey(key: string, value: string): void {
    const set = new Map(this.state.set);
    if (value === PRESET[key]) set.delete(key);
    else set.set(key, value);
    this.set({ set });
  }

  private group(title: string, open: boolean, knobs: Knob[]): HTMLElement {
    const rows = knobs.map((knob) => {
      const { row, dial: made } = dial(knob, `set-${knob.key}`, (value) => {
        this.setKey(knob.key, value);
      });
      this.dials.set(knob.key, made);
      return row;
    });
    return h("details", { open }, h("summary", {}, title), ...rows);
  }

  private field(
    key: "arrivals" | "size" | "link" | "rates" | "rate" | "queues" | "flows",
    label: string,
    list: string | null,
    placeholder: string,
  ): HTMLElement {
    const error = h("div", { class: "error", id: `${key}-error` });
    const input = h("input", {
      type: "text",
      id: key,
      autocomplete: "off",
      spellcheck: "false",
      placeholder,
      "aria-describedby": `${key}-error`,
      ...(list === null ? {} : { list }),
    });
    input.addEventListener("change", () => {
      const usual = { arrivals: "poisson", size: "64B", link: "1Gbit/s", rates: "", rate: "", queues: "", flows: "" }[
        key
      ];
      this.set({ [key]: input.value.trim() || usual });
    });
    this.fields.set(key, { input, error });
    return h("div", { class: "field" }, h("label", { for: key }, label), input, error);
  }

  private traffic(): HTMLElement {
    const service = h("input", {
      type: "text",
      id: "service",
      list: "service-list",
      autocomplete: "off",
      placeholder: "exponential",
      "aria-describedby": "service-error",
    });
    const error = h("div", { class: "error", id: "service-error" });
    service.addEventListener("change", () => {
      const set = new Map(this.state.set);
      const typed = service.value.trim();
      if (typed === "" || typed === "exponential") set.delete("service");
      else set.set("service", typed);
      this.set({ set });
    });
    this.fields.set("service", { input: service, error });
    this.other.addEventListener("change", () => {
      const set = new Map([...this.state.set].filter(([key]) => KNOBS.has(key) || key === "service"));
      for (const part of this.other.value.trim().split(/\s+/)) {
        const at = part.indexOf("=");
        if (at > 0) set.set(part.slice(0, at), part.slice(at + 1));
      }
      this.set({ set });
    });
    return h(
      "div",
      {},
      h(
        "details",
        { open: false },
        h("summary", {}, "Service times, queues, other keys"),
        h("div", { class: "field" }, h("label", { for: "service" }, "Service times"), service, error),
        this.field("queues", "Queues", null, "1; or 4:map=spread"),
        this.field("flows", "Flows", null, "10000:zipf=1"),
        h("div", { class: "field" }, h("label", { for: "other" }, "Other keys"), this.other, this.otherError),
      ),
      h(
        "details",
        { open: true },
        h("summary", {}, "Traffic"),
        this.field("arrivals", "Arrivals", "arrivals-list", "poisson"),
        this.field("size", "Frames", "size-list", "64B"),
        this.field("link", "Link", "link-list", "1Gbit/s"),
        this.field("rates", "Loads", null, "10kpps..300kpps:24"),
        this.field("rate", "Load of the table", null, "half the lowest cliff"),
      ),
    );
  }

  private drawSchemes(): void {
    const shape = this.state.schemes.map((scheme) => scheme.split(":")[0]).join("|");
    if (shape !== this.drawnSchemes) {
      this.drawnSchemes = shape;
      this.schemeErrors = [];
      this.schemeDials = [];
      const rows = this.state.schemes.map((scheme, i) => this.scheme(scheme, i));
      const add = h(
        "button",
        {
          type: "button",
          id: "add-scheme",
          click: () => {
            const next = SCHEMES.find((one) => !this.state.schemes.includes(one)) ?? "napi";
            this.set({ schemes: [...this.state.schemes, next] });
          },
        },
        "Add a scheme",
      );
      fill(this.schemes, ...rows, this.state.schemes.length < MOST_SCHEMES ? add : null);
    }
    this.state.schemes.forEach((scheme, i) => {
      const input = this.schemes.querySelector<HTMLInputElement>(`#scheme-${i}`);
      if (input) write(input, scheme);
      for (const [key, made] of this.schemeDials[i] ?? [])
        turn(made, parameters(scheme).get(key) ?? unset(scheme, key));
    });
  }

  private scheme(scheme: string, i: number): HTMLElement {
    const replace = (text: string): void => {
      this.set({ schemes: this.state.schemes.map((one, at) => (at === i ? text : one)) });
    };
    const input = h("input", {
      type: "text",
      id: `scheme-${i}`,
      list: "scheme-list",
      autocomplete: "off",
      spellcheck: "false",
      "aria-label": `Scheme ${i + 1}`,
      "aria-describedby": `scheme-${i}-error`,
    });
    input.value = scheme;
    input.addEventListener("change", () => {
      replace(input.value.trim());
    });
    const remove = h(
      "button",
      {
        type: "button",
        "aria-label": `Remove scheme ${i + 1}`,
        click: () => {
          this.set({ schemes: this.state.schemes.filter((_, at) => at !== i) });
        },
      },
      "×",
    );
    const dials = new Map<string, Dial>();
    const knobs = PARAMETERS[scheme.split(":")[0] ?? ""] ?? [];
    const rows = knobs.map((knob) => {
      const made = dial({ ...knob, absent: "none" }, `scheme-${i}-${knob.key}`, (value) => {
        const now = this.state.schemes[i] ?? scheme;
        const set = parameters(now);
        if (value === "none" || value === "0s") set.delete(knob.key);
        else set.set(knob.key, value);
        const name = now.split(":")[0] ?? "";
        const text = [...set].map(([key, one]) => `${key}=${one}`).join(",");
        replace(text === "" ? name : `${name}:${text}`);
      });
      dials.set(knob.key, made.dial);
      return made.row;
    });
    this.schemeDials[i] = dials;
    const error = h("div", { class: "error", id: `scheme-${i}-error` });
    this.schemeErrors[i] = error;
    return h(
      "div",
      { class: `scheme s${i}` },
      h("div", { class: "row" }, input, this.state.schemes.length > 1 ? remove : null),
      error,
      rows.length > 0 ? h("details", {}, h("summary", {}, "Parameters"), ...rows) : null,
    );
  }

  /** Shows a question. */
  show(state: State): void {
    this.state = state;
    this.drawSchemes();
    for (const [key, made] of this.dials) turn(made, state.set.get(key) ?? PRESET[key] ?? "none");
    for (const [key, { input }] of this.fields) {
      const text = key === "service" ? (state.set.get("service") ?? "exponential") : String(state[key as keyof State]);
      write(input, text);
    }
    const other = [...state.set]
      .filter(([key]) => !KNOBS.has(key) && key !== "service")
      .map(([key, value]) => `${key}=${value}`);
    if (document.activeElement !== this.other) this.other.value = other.join(" ");
  }

  /** Shows beside each control why it is refused. */
  refused(all: (Refused | null)[]): void {
    const shared = all.find((one) => one && one.part !== "scheme") ?? null;
    const keys = [...this.state.set.keys()];
    const at =
      shared === null
        ? null
        : shared.part.startsWith("set.")
          ? (keys[Number(shared.part.slice(4))] ?? null)
          : shared.part.replace(/^host\./, "");
    let placed = shared === null;
    const mark = (key: string, input: HTMLInputElement, error: HTMLElement): void => {
      const hit = key === at;
      input.setAttribute("aria-invalid", String(hit));
      say(error, hit && shared ? shared.text : "");
      placed ||= hit;
    };
    for (const [key, { text, error }] of this.dials) mark(key, text, error);
    for (const [key, { input, error }] of this.fields) mark(key, input, error);
    this.schemeErrors.forEach((error, i) => {
      const own = all[i];
      say(error, own?.part === "scheme" ? own.text : "");
      this.schemes.querySelector(`#scheme-${i}`)?.setAttribute("aria-invalid", String(own?.part === "scheme"));
    });
    say(this.otherError, placed ? "" : (shared?.text ?? ""));
  }
}

function parameters(scheme: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const part of (scheme.split(":").slice(1).join(":") || "").split(",")) {
    const at = part.indexOf("=");
    if (at > 0) found.set(part.slice(0, at), part.slice(at + 1));
  }
  return found;
}
