// The view Results: runs of the store where `netcliff serve` has it, and files that were opened.

import { fill, h, say } from "./dom";
import { rate } from "./format";
import { Plan } from "./suggested";
import { value, type Content, type Figure, type Reply } from "./types";

/** A row of `api/runs`. */
export interface Run {
  id: number;
  kind: string;
  name: string | null;
  state: string;
  started_unix_s: number;
  command: string;
  host: string;
  cliff_pps: Figure | null;
}

export interface Doors {
  open: (name: string, text: string) => void;
}

export class Results {
  readonly element: HTMLElement;
  private runs: Run[] = [];
  private chosen: number[] = [];
  private readonly status = h("p", { role: "status", class: "hint" });
  private readonly table = h("div", {
    class: "scroll",
    role: "region",
    tabindex: 0,
    "aria-label": "Runs of the store",
  });
  private readonly files = h(
    "ul",
    {},
    h(
      "li",
      { class: "hint" },
      "None yet: drop a record of find --json, of predict or simulate --json, an experiment or a host file onto the page.",
    ),
  );
  private readonly search = h("input", { type: "search", id: "search", placeholder: "name, kind, host, command" });
  private readonly compare = h(
    "a",
    { class: "button", id: "compare", target: "_blank", rel: "noopener" },
    "Compare the two chosen",
  );
  private readonly plan = new Plan();
  private readonly live = h("p", { id: "live", class: "hint" });
  private source: EventSource | null = null;

  constructor(private readonly doors: Doors) {
    this.search.addEventListener("input", () => {
      this.list();
    });
    this.element = h(
      "div",
      { class: "results" },
      h(
        "section",
        { class: "panel" },
        h("h2", {}, "Runs of the store"),
        h("div", { class: "row" }, h("label", { for: "search" }, "Search"), this.search, this.compare),
        this.status,
        this.table,
      ),
      h("section", { class: "panel" }, h("h2", {}, "This host now"), this.live),
      this.plan.element,
      h("section", { class: "panel" }, h("h2", {}, "Files opened on this page"), this.files),
    );
  }

  /** Asks for the runs. A page without a server has none. */
  async refresh(): Promise<void> {
    if (location.protocol === "file:") {
      this.without();
      return;
    }
    try {
      const response = await fetch("api/runs");
      if (!response.ok || !(response.headers.get("content-type") ?? "").includes("json")) {
        this.without(response.status === 404 ? undefined : (await response.text()).slice(0, 300));
        return;
      }
      this.runs = (await response.json()) as Run[];
      say(this.status, `${this.runs.length} runs, newest first. Choose two to compare them.`);
      this.list();
      this.plan.enable();
      this.listen();
    } catch (error) {
      this.without(String(error));
    }
  }

  private without(why?: string): void {
    say(this.status, why ?? "This page has no store: start netcliff serve to read the runs of this machine here.");
    say(this.live, "netcliff serve shows it.");
    this.list();
  }

  private listen(): void {
    if (this.source) return;
    this.source = new EventSource("api/watch");
    this.source.onmessage = ({ data }: MessageEvent<string>) => {
      const moment = JSON.parse(data) as { bottleneck?: string; refused?: string };
      say(this.live, moment.refused ?? moment.bottleneck ?? "");
    };
    this.source.onerror = () => {
      say(this.live, "not connected: netcliff serve has ended, or this page read too slowly");
    };
  }

  private list(): void {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (run: Run): boolean => {
      const text = `${run.id} ${run.name ?? ""} ${run.kind} ${run.state} ${run.host} ${run.command}`.toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const rows = this.runs.filter(fits).map((run) => this.row(run));
    fill(
      this.table,
      rows.length === 0
        ? null
        : h(
            "table",
            { class: "left", id: "runs" },
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                ...["Choose", "Run", "Kind", "State", "Begun (UTC)", "Cliff", "Host", "Command"].map((name) =>
                  h("th", { scope: "col" }, name),
                ),
              ),
            ),
            h("tbody", {}, ...rows),
          ),
    );
    const [first, second] = this.chosen;
    const both = first !== undefined && second !== undefined;
    this.compare.hidden = !both;
    if (both) this.compare.href = `compare?a=${first}&b=${second}`;
  }

  private row(run: Run): HTMLElement {
    const box = h("input", {
      type: "checkbox",
      "aria-label": `Choose run ${run.id}`,
      change: () => {
        this.chosen = this.chosen.filter((id) => id !== run.id);
        if (box.checked) this.chosen = [...this.chosen.slice(-1), run.id];
        this.list();
      },
    });
    box.checked = this.chosen.includes(run.id);
    const title = run.name === null ? String(run.id) : `${run.id} ${run.name}`;
    const what =
      run.kind === "find"
        ? h(
            "button",
            {
              type: "button",
              "aria-label": `Ask what if of run ${run.id}`,
              click: () => {
                void this.fetchRun(String(run.id));
              },
            },
            "What if",
          )
        : null;
    const found = value(run.cliff_pps);
    return h(
      "tr",
      {},
      h("td", {}, box),
      h("td", {}, h("a", { href: `run/${run.id}`, target: "_blank", rel: "noopener" }, title), " ", what),
      h("td", { "data-label": "Kind" }, run.kind),
      h("td", { "data-label": "State" }, run.state),
      h(
        "td",
        { "data-label": "Begun" },
        new Date(run.started_unix_s * 1000).toISOString().slice(0, 16).replace("T", " "),
      ),
      h(
        "td",
        { "data-label": "Cliff" },
        found !== null ? rate(found) : run.kind === "find" && run.state === "done" ? "none measured" : "",
      ),
      h("td", { "data-label": "Host" }, run.host),
      h(
        "td",
        { "data-label": "Command" },
        h("code", {}, run.command.length > 80 ? `${run.command.slice(0, 79)}…` : run.command),
      ),
    );
  }

  /** Opens the newest run of the store that measured a cliff; a page without a server, or a store without one, stays as it is. */
  async openNewest(untouched: () => boolean): Promise<void> {
    if (location.protocol === "file:") return;
    try {
      const response = await fetch("api/runs");
      if (!response.ok || !(response.headers.get("content-type") ?? "").includes("json")) return;
      const newest = ((await response.json()) as Run[]).find(
        (run) => run.kind === "find" && run.state === "done" && value(run.cliff_pps) !== null,
      );
      if (newest && untouched()) await this.fetchRun(String(newest.id));
    } catch {
      // No server: the page has its starting point.
    }
  }

  /** Opens a run of the store in Explore. */
  async fetchRun(id: string): Promise<void> {
    if (!/^\d+$/.test(id)) return;
    const response = await fetch(`api/run/${id}`);
    const text = await response.text();
    if (response.ok) this.doors.open(`find run ${id}`, text);
    else say(this.status, text);
  }

  /** Notes a file that was opened. */
  opened(name: string, reply: Reply<unknown>): void {
    const text = "error" in reply ? reply.error.text : `${name}: ${(reply.ok as Content).kind}`;
    const first = this.files.querySelector(".hint");
    if (first) first.remove();
    this.files.prepend(h("li", { class: "error" in reply ? "error" : "" }, text));
  }
}
