// The view Results: runs of the store where `netcliff serve` has it, and files that were opened.

import { fill, h, say } from "./dom";
import { hostName, rate } from "./format";
import { Plan } from "./suggested";
import { value, type Figure, type Reply } from "./types";

/** A row of `api/runs`. */
export interface Run {
  id: number;
  kind: string;
  name: string | null;
  state: string;
  started_unix_s: number;
  command: string;
  host: string;
  /** Whether it is of the host that serves the page; null: it is no `find`. */
  here: boolean | null;
  cliff_pps: Figure | null;
}

/** Answer of `api/opening`: what the page opens on. */
export interface Opening {
  /** null: no run of the store has costs. */
  run: number | null;
  host: string;
  here: boolean;
  cliff_pps: Figure | null;
  /** Why the page opens on this run and not on the newest, or why no run can be opened. */
  why: string | null;
}

/** What a run of the store holds. */
export interface Stored {
  text: string;
  /** Whether it is of the host that serves the page; null: it is no `find`. */
  here: boolean | null;
}

export interface Doors {
  /** A run is chosen, to be opened in Explore. */
  open: (run: string) => void;
  /** The runs of the store are known. */
  listed: (runs: Run[]) => void;
}

/** A server that does not answer for so long delays the page no longer (ms). */
const PATIENCE_MS = 5000;

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
      "No file is open. Drop a file onto the page: output of find, predict or simulate with --json, an experiment, a host file or a capture.",
    ),
  );
  private readonly search = h("input", { type: "search", id: "search", placeholder: "name, kind, host, command" });
  private readonly compare = h(
    "a",
    { class: "button", id: "compare", target: "_blank", rel: "noopener" },
    "Compare the two selected runs",
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
      h("section", { class: "panel" }, h("h2", {}, "Bottleneck of this host, live"), this.live),
      this.plan.element,
      h("section", { class: "panel" }, h("h2", {}, "Files opened on this page"), this.files),
    );
  }

  /** Asks for the runs: whether there are any. A page without a server has none. */
  private async load(): Promise<boolean> {
    if (location.protocol === "file:") {
      this.without();
      return false;
    }
    const response = await fetch("api/runs");
    if (!isJson(response)) {
      this.without(response.status === 404 ? undefined : (await response.text()).slice(0, 300));
      return false;
    }
    this.runs = (await response.json()) as Run[];
    this.doors.listed(this.runs);
    return true;
  }

  /** Shows the runs. */
  async refresh(): Promise<void> {
    try {
      if (!(await this.load())) return;
      say(this.status, `${this.runs.length} runs, newest first. Select two to compare them.`);
      this.list();
      this.plan.enable();
      this.listen();
    } catch (error) {
      this.without(String(error));
    }
  }

  private without(why?: string): void {
    say(
      this.status,
      why ?? "No stored runs: this page was opened without a server. netcliff serve shows the runs of this machine.",
    );
    say(this.live, "Only a page of netcliff serve can show the bottleneck of this host.");
    this.list();
  }

  private listen(): void {
    if (this.source) return;
    this.source = new EventSource("api/watch");
    say(this.live, "waiting for the first measurement (1 s)");
    this.source.onmessage = ({ data }: MessageEvent<string>) => {
      const moment = JSON.parse(data) as { bottleneck?: string; refused?: string };
      say(this.live, moment.refused ?? moment.bottleneck ?? "");
    };
    this.source.onerror = () => {
      say(this.live, "not connected: netcliff serve has ended, or it disconnected this page, which read too slowly");
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
                ...["Select", "Run", "Kind", "State", "Started (UTC)", "Cliff", "Host", "Command"].map((name) =>
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
      "aria-label": `Select run ${run.id}`,
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
              "aria-label": `Open run ${run.id} in Explore`,
              click: () => {
                this.doors.open(String(run.id));
              },
            },
            "Explore",
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
        { "data-label": "Started" },
        new Date(run.started_unix_s * 1000).toISOString().slice(0, 16).replace("T", " "),
      ),
      h(
        "td",
        { "data-label": "Cliff" },
        found !== null ? rate(found) : run.kind === "find" && run.state !== "running" ? "none measured" : "",
      ),
      h("td", { "data-label": "Host" }, hostName(run.host, run.here)),
      h(
        "td",
        { "data-label": "Command" },
        h("code", {}, run.command.length > 300 ? `${run.command.slice(0, 299)}…` : run.command),
      ),
    );
  }

  /** What the page opens on; null: it has no server, or one that does not answer. */
  async opening(): Promise<Opening | null> {
    if (location.protocol === "file:") return null;
    try {
      const response = await fetch("api/opening", { signal: AbortSignal.timeout(PATIENCE_MS) });
      return isJson(response) ? ((await response.json()) as Opening) : null;
    } catch {
      return null;
    }
  }

  /** What a run holds; why it cannot be had. */
  async stored(run: string): Promise<Stored | string> {
    try {
      if (!/^\d+$/.test(run)) return `run=${run}: expected the number of a run, such as 3`;
      if (this.runs.length === 0) await this.load();
      const response = await fetch(`api/run/${run}`);
      const text = await response.text();
      if (!isJson(response)) return `Run ${run} cannot be opened: ${text.trim()}`;
      return { text, here: this.runs.find((one) => one.id === Number(run))?.here ?? null };
    } catch (error) {
      return `Run ${run} cannot be opened: ${String(error)}`;
    }
  }

  /** Lists a file that was opened, with the kind of its content, or why it was not. */
  opened(name: string, reply: Reply<{ kind: string }>): void {
    const text = "error" in reply ? reply.error.text : `${name}: ${reply.ok.kind}`;
    const first = this.files.querySelector(".hint");
    if (first) first.remove();
    this.files.prepend(h("li", { class: "error" in reply ? "error" : "" }, text));
  }
}

function isJson(response: Response): boolean {
  return response.ok && (response.headers.get("content-type") ?? "").includes("json");
}
