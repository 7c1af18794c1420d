// What a find record suggests, with its effect, and the settings that `tune` would make on this host.

import { fill, h, say } from "./dom";
import { digits, rate } from "./format";
import type { State } from "./state";
import { ends, value, type Figure, type Finding, type PlanSheet, type Suggestion } from "./types";

/** The change of the question that a suggestion amounts to; null: it is more than a value. */
function changed(one: Suggestion, finding: Finding, state: State): [string, string] | null {
  const { netdev_max_backlog: backlog, receive_buffer_bytes: bytes } = one.change ?? {};
  if (backlog !== undefined) return ["ring", String(backlog)];
  const before = finding.setup.socket_buffer_bytes;
  const packets = Number(state.set.get("socket_buffer"));
  if (bytes === undefined || before === undefined || !(packets > 0)) return null;
  return ["socket_buffer", String(Math.round((packets * bytes) / before))];
}

/** The ends of an interval as a page of `find` writes them; none where they read the same. */
function between(figure: Figure | undefined, print: (value: number) => string): string {
  const [low, high] = (ends(figure) ?? [0, 0]).map(print);
  return low === undefined || high === undefined || low === high ? "" : ` (${low} to ${high})`;
}

/** The same figures as on the page of the record: the value, its interval, and what it is against. */
function effect({ expected_cliff_pps: expected, gain, tried }: Suggestion): string {
  const percent = (share: number): string => digits(100 * share, 3);
  const more = (gain: Figure): string => {
    const one = value(gain) ?? 0;
    return `${one < 0 ? "" : "+"}${percent(one)} %${between(gain, percent)}`;
  };
  const cliff = value(expected);
  const said = [];
  if (cliff !== null) said.push(`simulated cliff with it ${rate(cliff)}${between(expected, rate)}`);
  if (gain !== undefined) {
    const without = cliff === null ? "the simulated cliff" : `the ${rate(cliff / (1 + (value(gain) ?? 0)))} simulated`;
    said.push(`simulated gain ${more(gain)} over ${without} without it`);
  }
  if (tried) {
    const [without, by] = [value(tried.without_pps) ?? 0, value(tried.with_pps) ?? 0].map(rate);
    said.push(
      `measured median cliff ${without} without it, ${by} with it${tried.gain === undefined ? "" : `, a change of ${more(tried.gain)}`}`,
    );
  }
  return said.join("; ");
}

/** The suggestions of a record; those that are a value of the host can be tried on the curves. */
export function suggestions(finding: Finding, state: State, change: (state: State) => void): HTMLElement | null {
  const found = finding.suggestions ?? [];
  if (found.length === 0) return null;
  const item = (one: Suggestion): HTMLElement => {
    const assignment = changed(one, finding, state);
    const apply = (): void => {
      if (assignment) change({ ...state, set: new Map([...state.set, assignment]) });
    };
    return h(
      "li",
      {},
      `${one.setting}: ${effect(one)}. `,
      h("span", { class: "hint" }, `${one.why}. `),
      assignment === null
        ? null
        : h(
            "button",
            { type: "button", click: apply, "aria-label": `Set ${assignment.join("=")}` },
            `${assignment.join("=")}`,
          ),
    );
  };
  return h("div", { class: "suggested" }, h("p", {}, "Suggestions of this record:"), h("ul", {}, ...found.map(item)));
}

const OBJECTIVES = ["throughput", "latency", "cpu"];

/** What `netcliff tune plan` proposes for the host that serves this page; nothing is set. */
export class Plan {
  readonly element: HTMLElement;
  private readonly status = h("p", { class: "hint", role: "status" }, "Only netcliff serve can show proposals.");
  private readonly table = h("div", {
    class: "scroll",
    role: "region",
    tabindex: 0,
    "aria-label": "Settings that tune proposes",
  });
  private readonly buttons: HTMLButtonElement[];

  constructor() {
    this.buttons = OBJECTIVES.map((objective) =>
      h(
        "button",
        { type: "button", id: `plan-${objective}`, disabled: true, click: () => void this.ask(objective) },
        objective,
      ),
    );
    const choice = h("div", { class: "row", role: "group", "aria-label": "Objective" }, ...this.buttons);
    this.element = h(
      "section",
      { class: "panel" },
      h("h2", {}, "Settings that tune proposes for this host"),
      choice,
      this.status,
      this.table,
    );
  }

  /** There is a server. */
  enable(): void {
    for (const button of this.buttons) button.disabled = false;
    say(this.status, "Choose an objective to see the settings with their expected effect. Nothing is changed.");
  }

  private async ask(objective: string): Promise<void> {
    say(this.status, "reading the settings of this host");
    try {
      const response = await fetch(`api/plan?objective=${objective}`);
      const text = await response.text();
      if (response.ok) this.show(JSON.parse(text) as PlanSheet);
      else say(this.status, text);
    } catch (error) {
      say(this.status, String(error));
    }
  }

  private show({ objective, proposals, notes }: PlanSheet): void {
    say(
      this.status,
      `${proposals.length} settings for ${objective}. "netcliff tune apply --objective ${objective}" sets them, "netcliff tune undo" restores the old values.`,
    );
    const columns = ["Setting", "Now", "Proposed", "Effect", "Why", "Command"];
    const rows = proposals.map((one) =>
      h(
        "tr",
        {},
        ...[one.name, one.old, one.new, one.effect ?? "unknown: not calibrated", one.reason].map((text, i) =>
          h("td", { "data-label": columns[i] ?? "" }, text),
        ),
        h("td", { "data-label": "Command" }, h("code", {}, one.command)),
      ),
    );
    const head = h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)));
    const table = h("table", { class: "left", id: "plan" }, h("thead", {}, head), h("tbody", {}, ...rows));
    fill(
      this.table,
      rows.length > 0 ? table : null,
      h("ul", {}, ...notes.map((note) => h("li", { class: "hint" }, note))),
    );
  }
}
