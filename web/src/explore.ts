// The view Explore: what is asked on the left, what becomes of it on the right.

import { Answers, type SchemeAnswers, type Sure } from "./answers";
import { Chart, shortRate, type Area, type Dot, type Line, type Mark } from "./chart";
import { Controls } from "./controls";
import { copy, download, fill, h, say } from "./dom";
import { digits, duration, niceAbove, hostName, pps, rate, rateOf, share } from "./format";
import { command, setting, type State } from "./state";
import { suggestions } from "./suggested";
import {
  ends,
  value,
  type Cpu,
  type CurvePoint,
  type Figure,
  type Latency,
  type Measured,
  type Outcome,
} from "./types";

const QUANTILES: [keyof Latency, string][] = [
  ["mean", "mean"],
  ["p50", "p50"],
  ["p99", "p99"],
  ["p999", "p99.9"],
];
const CPU_PARTS: [keyof Cpu, string][] = [
  ["interrupt", "interrupts"],
  ["poll", "polls"],
  ["protocol", "protocol"],
  ["application", "application"],
  ["paused", "paused"],
  ["available", "available"],
];

export class Explore {
  readonly element: HTMLElement;
  readonly answers: Answers;
  readonly controls: Controls;
  /** What follows the last change once its curves are seen. */
  private after: (() => void) | undefined;
  /** A measured host's record. */
  finding: Measured | null = null;
  onRemove: () => void = () => undefined;
  private quantile: keyof Latency = "p99";
  private split = 0;
  private hover: number | null = null;
  private readonly summary = h("div", { class: "summary", role: "list", "aria-label": "Cliff of each scheme" });
  private readonly charts: Record<"delivered" | "latency" | "cpu" | "loss", Chart>;
  private readonly table = h("div", {
    class: "scroll",
    tabindex: 0,
    role: "region",
    "aria-label": "Figures at a load",
  });
  private readonly bars = h("div", { class: "moves" });
  private readonly notes = h("ul", { class: "notes", tabindex: 0, "aria-label": "Limits of these figures" });
  private readonly commandText = h("code", { class: "command" });
  private readonly splitTools = h("div", { class: "tools", role: "group", "aria-label": "Scheme of the CPU split" });
  private readonly copied = h("span", { role: "status", class: "hint" });
  private readonly progress = h("p", { class: "hint", role: "status" });
  private frame = 0;
  /** What the engines were asked last. */
  private asked = "";

  constructor(
    private state: State,
    private readonly change: (state: State) => void,
    workers: number,
  ) {
    this.answers = new Answers(
      () => {
        this.draw();
      },
      () => {
        this.glanced();
      },
      workers,
    );
    this.controls = new Controls(state, (next) => {
      this.change(next);
    });
    const surface = (label: string): HTMLElement =>
      h("div", {
        class: "surface",
        role: "group",
        "aria-label": `${label}; arrow keys move the load that is looked at`,
      });
    const cursor = (x: number, pin: boolean): void => {
      this.hover = x;
      if (pin) this.change({ ...this.state, rate: pps(x) });
      else this.draw();
    };
    const make = (label: string): Chart => new Chart(surface(label), cursor);
    this.charts = {
      delivered: make("Delivered"),
      latency: make("Latency"),
      cpu: make("CPU split"),
      loss: make("Loss by place"),
    };
    this.element = h("div", { class: "explore" }, this.controls.element, this.figures());
  }

  private tools(name: "delivered" | "latency" | "cpu" | "loss", ...more: (HTMLElement | null)[]): HTMLElement {
    const chart = this.charts[name];
    return h(
      "div",
      { class: "tools" },
      ...more,
      h("span", { class: "space" }),
      h(
        "button",
        {
          type: "button",
          "aria-label": `Save ${name} as SVG`,
          click: () => {
            download(`netcliff-${name}.svg`, chart.file(), "image/svg+xml");
          },
        },
        "SVG",
      ),
      h(
        "button",
        {
          type: "button",
          "aria-label": `Save ${name} as PNG`,
          click: () => {
            void chart.pixels().then((blob) => {
              download(`netcliff-${name}.png`, blob);
            });
          },
        },
        "PNG",
      ),
    );
  }

  private figures(): HTMLElement {
    const quantiles = h("div", { class: "row", role: "group", "aria-label": "Latency shown" });
    for (const [key, name] of QUANTILES) {
      const button = h(
        "button",
        {
          type: "button",
          "aria-pressed": String(key === this.quantile),
          click: () => {
            this.quantile = key;
            for (const other of quantiles.children) other.setAttribute("aria-pressed", String(other === button));
            this.draw();
          },
        },
        name,
      );
      quantiles.append(button);
    }
    const legend = h("div", { class: "legend" }, ...CPU_PARTS.map(([key, name]) => h("span", { class: key }, name)));
    const plot = (first: boolean, chart: Chart, ...tools: HTMLElement[]): HTMLElement =>
      h("section", { class: first ? "plot first" : "plot" }, chart.element, ...tools);
    const { delivered, latency, cpu, loss } = this.charts;
    const exports = h(
      "div",
      { class: "row" },
      h(
        "button",
        {
          type: "button",
          id: "copy",
          click: () => {
            void this.copyCommand();
          },
        },
        "Copy the command",
      ),
      h(
        "button",
        {
          type: "button",
          click: () => {
            void this.copyAddress();
          },
        },
        "Copy the address",
      ),
      h(
        "button",
        {
          type: "button",
          id: "csv",
          click: () => {
            download("netcliff.csv", this.csv(), "text/csv");
          },
        },
        "CSV",
      ),
      h(
        "button",
        {
          type: "button",
          id: "json",
          click: () => {
            void this.records();
          },
        },
        "JSON",
      ),
      this.copied,
    );
    return h(
      "div",
      { class: "figures" },
      this.summary,
      plot(
        true,
        delivered,
        this.tools(
          "delivered",
          h(
            "span",
            { class: "hint" },
            "line: model, or simulator where the model has no curve · circles: simulator with 95 % interval · diamonds: measured",
          ),
        ),
      ),
      h(
        "div",
        { class: "plots rest" },
        plot(false, latency, this.tools("latency", quantiles)),
        plot(false, cpu, this.tools("cpu", this.splitTools), legend),
        plot(
          false,
          loss,
          this.tools(
            "loss",
            h("span", { class: "hint" }, "dotted: lost at the socket buffer · other lines: at ring or backlog"),
          ),
        ),
      ),
      h("section", { class: "panel" }, this.table),
      h(
        "div",
        { class: "pair" },
        h("section", { class: "panel" }, h("h2", {}, "Sensitivity of the cliff to each cost"), this.bars),
        h("section", { class: "panel" }, h("h2", {}, "Limits of these figures"), this.notes, this.progress),
      ),
      h("section", { class: "panel" }, h("h2", {}, "Equivalent command"), this.commandText, exports),
    );
  }

  /** Another question: the engines begin with it. `after` is called once the curves are seen, or at once where no curve changes. */
  ask(state: State, changedAt?: number, after?: () => void): void {
    if (this.split >= state.schemes.length) this.split = 0;
    const text = asked(state);
    this.state = state;
    if (text === this.asked) {
      this.draw();
      after?.();
      return;
    }
    this.asked = text;
    this.after = after;
    void this.answers.update(state, changedAt);
  }

  /** The same, and the controls show it. */
  show(state: State): void {
    this.ask(state);
    this.controls.show(state);
  }

  /** A scheme's name where there is no room for its parameters. */
  private label(number: number): string {
    const names = this.answers.schemes.map((one) => one.scheme.split(":")[0] ?? "");
    const own = names[number] ?? "";
    return names.filter((name) => name === own).length > 1 ? `${number + 1}, ${own}` : own;
  }

  /** The load that is looked at (pps). */
  load(): number {
    const asked = rateOf(this.state.rate);
    if (asked !== null) return asked;
    const cliffs = this.answers.schemes
      .map((one) => one.cliff?.pps)
      .filter((found): found is number => found !== undefined);
    return cliffs.length > 0 ? 0.5 * Math.min(...cliffs) : 0.25 * this.answers.xMax;
  }

  draw(): void {
    this.inFrame(() => {
      this.drawCharts();
    });
  }

  /** The curves at once, for the next frame. */
  private glanced(): void {
    this.drawCharts();
    this.inFrame(() => undefined);
  }

  /** `charts` in the next frame, which may take the place of one that was asked for, and the texts once it is seen. */
  private inFrame(charts: () => void): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      charts();
      // The frame is laid out and painted between this and the next task.
      setTimeout(() => {
        this.seen();
        this.drawTexts();
      });
    });
  }

  /** The curves of the last change are on the screen. */
  private seen(): void {
    this.answers.seen();
    const { after } = this;
    this.after = undefined;
    after?.();
  }

  private cursor(): number {
    return this.hover ?? this.load();
  }

  private drawTexts(): void {
    const { schemes } = this.answers;
    const curves = schemes.map((one) => this.answers.curve(one));
    this.controls.refused(schemes.map((one) => one.refused));
    this.cards();
    this.chooser();
    this.readout(this.cursor());
    this.answers.lookAt(this.state, this.load());
    this.moves();
    this.limits(curves.map((one) => one.by));
    say(this.commandText, this.command());
  }

  private drawCharts(): void {
    const { schemes, xMax } = this.answers;
    const cursor = this.cursor();
    const common = { xMax, xTitle: "offered load (pps)", xText: shortRate, cursor };
    const empty = schemes.every((one) => one.refused) ? "no curve: see the error on the left" : "";
    const curves = schemes.map((one) => this.answers.curve(one));
    const line = (i: number, read: (outcome: Outcome) => number | null, dashed = false): Line => ({
      colour: i,
      x: [0, ...(curves[i]?.points ?? []).map((p) => p.load_pps)],
      y: [null, ...(curves[i]?.points ?? []).map((p) => this.answers.figure(schemes[i] as SchemeAnswers, p, read))],
      dashed,
      thin: curves[i]?.by === "glance",
    });
    const marks: Mark[] = schemes.flatMap((one, i) =>
      one.cliff && !one.refused
        ? [{ colour: i, x: one.cliff.pps, label: `cliff ${rate(one.cliff.pps)}`, band: one.cliff.band }]
        : [],
    );
    const wire = this.finding?.finding;
    const measured = wire?.cliff_pps.wire;
    if (measured !== null && measured !== undefined)
      marks.push({
        colour: 4,
        x: value(measured) ?? 0,
        label: `measured ${rate(value(measured) ?? 0)}`,
        band: ends(measured),
      });
    const dots = (read: (outcome: Outcome) => Figure | null | undefined): Dot[] => {
      const found: Dot[] = [];
      schemes.forEach((one, i) => {
        for (const { load, outcome } of one.sim.values()) {
          const y = value(read(outcome));
          if (y !== null) found.push({ colour: i, x: load, y, ends: ends(read(outcome)), shape: "circle" });
        }
      });
      for (const point of wire?.sweep ?? []) {
        const y = value(read(point.outcome));
        if (point.engine === "wire" && y !== null)
          found.push({
            colour: 4,
            x: value(point.outcome.offered_pps) ?? point.load_pps,
            y,
            ends: ends(read(point.outcome)),
            shape: "diamond",
          });
      }
      return found;
    };
    const delivered = schemes.map((_, i) => line(i, (o) => value(o.throughput_pps)));
    // The origin belongs to what is delivered.
    for (const one of delivered) one.y[0] = one.x.length > 1 ? 0 : null;
    const peak = Math.max(
      ...delivered.flatMap((one) => one.y.map((y) => y ?? 0)),
      ...(wire?.sweep ?? []).filter((p) => p.engine === "wire").map((p) => value(p.outcome.throughput_pps) ?? 0),
      1,
    );
    this.charts.delivered.draw({
      ...common,
      title: "Delivered load",
      yTitle: "pps",
      yMin: 0,
      yMax: niceAbove(peak * 1.08),
      yText: shortRate,
      lines: delivered,
      dots: dots((o) => o.throughput_pps),
      marks,
      diagonal: true,
      empty,
    });

    const quantile = (o: Outcome): Figure | undefined => o.latency_s?.[this.quantile];
    const latency = schemes.map((_, i) => line(i, (o) => value(quantile(o))));
    const seen = latency.flatMap((one) => one.y.filter((y): y is number => y !== null && y > 0));
    const low = seen.length > 0 ? Math.min(...seen) : 1e-6;
    // In livelock the wait grows without bound: the rest stays to be seen.
    const high = seen.length > 0 ? Math.min(Math.max(...seen), low * 1e5) : 1e-3;
    const name = QUANTILES.find(([key]) => key === this.quantile)?.[1] ?? "";
    this.charts.latency.draw({
      ...common,
      title: `Latency, ${name}`,
      yTitle: "log scale",
      logY: true,
      yMin: 10 ** Math.floor(Math.log10(low)),
      yMax: 10 ** Math.ceil(Math.log10(high * 1.01)),
      yText: (y) => duration(y),
      lines: latency,
      dots: dots(quantile),
      marks: marks.map((m) => ({ ...m, label: "" })),
      empty,
    });

    this.charts.cpu.draw({
      ...common,
      title: `CPU split: ${this.label(this.split)}`,
      yTitle: "share of one CPU",
      yMin: 0,
      yMax: 1,
      yText: (y) => share(y),
      lines: [],
      areas: stack(curves[this.split]?.points ?? []),
      marks: marks.filter((m) => m.colour === this.split),
      empty,
    });
    const lost = [
      ...schemes.map((_, i) => line(i, (o) => value(o.loss?.ring ?? o.loss_fraction))),
      ...schemes.map((_, i) => line(i, (o) => value(o.loss?.socket), true)),
    ];
    this.charts.loss.draw({
      ...common,
      title: "Loss by place",
      yTitle: "share of the offered packets",
      yMin: 0,
      yMax: 1,
      yText: (y) => share(y),
      lines: lost,
      marks: marks.map((m) => ({ ...m, label: "" })),
      empty,
    });
  }

  private cards(): void {
    const cards = this.answers.schemes.map((one, i) => {
      const { cliff } = one;
      const figure = one.refused
        ? h("div", { class: "error" }, one.refused.text)
        : h(
            "div",
            { class: "big" },
            cliff ? rate(cliff.pps) : one.noCliff === null ? "…" : "none",
            " ",
            h("small", {}, cliff?.by === "sim" ? "cliff, simulated" : "cliff by the model (loss of 1e-4)"),
          );
      return h(
        "div",
        { class: `card s${i}`, role: "listitem" },
        h("div", { class: "name" }, one.scheme),
        figure,
        cliff?.livelock === null || cliff?.livelock === undefined ? null : h("p", {}, livelock(cliff.livelock)),
        cliff?.binding === null || cliff?.binding === undefined
          ? null
          : h("p", { class: "hint" }, `Bottleneck: ${cliff.binding}`),
        one.noCliff === null ? null : h("p", { class: "hint" }, one.noCliff),
        this.differing(one),
      );
    });
    const wire = this.finding;
    if (wire) {
      const found = wire.finding.cliff_pps.wire;
      const low = ends(found);
      cards.push(
        h(
          "div",
          { class: "card", role: "listitem" },
          h("div", { class: "name" }, `measured: ${wire.name}`),
          h(
            "div",
            { class: "big" },
            found === null || found === undefined ? "none measured" : rate(value(found) ?? 0),
            " ",
            h("small", {}, "cliff, measured"),
          ),
          low ? h("p", {}, `between ${rate(low[0])} and ${rate(low[1])}`) : null,
          h("p", { class: "hint" }, `${hostName(wire.finding.host.cpu, wire.here)}, ${wire.finding.host.kernel}`),
          suggestions(wire.finding, this.state, this.change),
          h(
            "button",
            {
              type: "button",
              click: () => {
                this.finding = null;
                this.onRemove();
                this.draw();
              },
            },
            "Remove this record",
          ),
        ),
      );
    }
    fill(this.summary, ...cards);
  }

  /** Why the cliff of the untouched record is another one than on its page; null: it is the same, or another question is asked. */
  private differing(one: SchemeAnswers): HTMLElement | null {
    const { finding, differs, asks } = this.finding ?? {};
    if (!one.cliff || !finding || !differs || JSON.stringify(setting(this.state, one.scheme)) !== asks) return null;
    const page = value(finding.cliff_pps[one.cliff.by]);
    return page !== null && rate(page) === rate(one.cliff.pps) ? null : h("p", { class: "differs" }, differs);
  }

  private chooser(): void {
    const { schemes } = this.answers;
    if (
      this.splitTools.childElementCount !== schemes.length ||
      [...this.splitTools.children].some((b, i) => b.textContent !== short(schemes[i]))
    ) {
      fill(
        this.splitTools,
        ...schemes.map((one, i) =>
          h(
            "button",
            {
              type: "button",
              click: () => {
                this.split = i;
                this.draw();
              },
            },
            short(one),
          ),
        ),
      );
    }
    [...this.splitTools.children].forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === this.split));
    });
  }

  private readout(load: number): void {
    const { schemes } = this.answers;
    const rows: [string, (o: Outcome) => Figure | null | undefined, (v: number) => string][] = [
      ["Delivered load", (o) => o.throughput_pps, rate],
      ["Lost at the ring or backlog", (o) => o.loss?.ring ?? o.loss_fraction, share],
      ["Lost at the socket buffer", (o) => o.loss?.socket, share],
      ["Latency, mean", (o) => o.latency_s?.mean, duration],
      ["Latency, p50", (o) => o.latency_s?.p50, duration],
      ["Latency, p99", (o) => o.latency_s?.p99, duration],
      ["Latency, p99.9", (o) => o.latency_s?.p999, duration],
      ["CPU available, of one CPU", (o) => o.cpu?.available, share],
      ["Interrupts per second", (o) => o.interrupts_per_s, (v) => digits(v)],
      ["Packets per poll", (o) => o.packets_per_poll, (v) => digits(v)],
    ];
    // A glance has no interval: its curve is drawn, its figures are not read out.
    const sure = schemes.map((one) => this.answers.sure(one));
    const known = sure.filter((points) => points.size > 0);
    const all = known.flatMap((points) => [...points]);
    const common = all.filter(([key]) => known.every((points) => points.has(key)));
    const [key, at] = nearest(common.length > 0 ? common : all, load) ?? ["", null];
    fill(
      this.table,
      h(
        "table",
        { id: "readout" },
        h(
          "caption",
          {},
          `At an offered load of ${rate(at?.load_pps ?? load)}`,
          " ",
          h("span", { class: "hint" }, "Click, or use the arrow keys in a figure, for another load."),
        ),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Figure"),
            ...schemes.map((one, i) => h("th", { scope: "col" }, h("span", { class: `swatch s${i}` }), one.scheme)),
          ),
        ),
        h(
          "tbody",
          {},
          ...rows.map(([name, read, print]) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, name),
              ...sure.map((points, i) => {
                const label = this.label(i);
                return this.cell(label, points.get(key), read, print);
              }),
            ),
          ),
        ),
      ),
    );
  }

  /** The model's figure, else the simulator's with its interval. */
  private cell(
    label: string,
    at: Sure | undefined,
    read: (o: Outcome) => Figure | null | undefined,
    print: (value: number) => string,
  ): HTMLElement {
    const td = (by: string, text: string, hint = ""): HTMLElement =>
      h(
        "td",
        { "data-label": label, "data-by": by },
        text,
        hint === "" ? null : h("span", { class: "hint" }, ` (${hint})`),
      );
    const model = at?.model && value(read(at.model));
    if (typeof model === "number") return td("model", print(model));
    const figure = at?.sim && read(at.sim);
    const [found, sampled] = [value(figure), ends(figure)];
    if (found !== null && sampled !== null)
      return td("sim", print(found), `${print(sampled[0])} to ${print(sampled[1])}`);
    if (found === 0) return td("sim", print(found));
    if (this.answers.busy) return td("", "…");
    return found === null ? td("", "-") : td("sim", print(found), "no interval: too few packets");
  }

  private moves(): void {
    const one = this.answers.schemes[this.split];
    if (!one) return;
    if (!one.sensitivities && one.noModel !== null) {
      this.bars.dataset.asked = "";
      const text = `This takes about fifty cliffs by the model, which has no curve here: ${one.noModel}.`;
      if (this.bars.textContent !== text) fill(this.bars, h("p", { class: "hint" }, text));
      return;
    }
    if (!one.sensitivities) {
      const status = h("p", { class: "hint", role: "status" });
      const ask = h(
        "button",
        {
          type: "button",
          id: "sensitivities",
          click: () => {
            say(status, "computing about fifty cliffs");
            void this.answers.sensitivities(this.state, this.split).then((error) => {
              if (error !== null) say(status, error);
            });
          },
        },
        `Compute for ${short(one)}`,
      );
      if (this.bars.dataset.asked === one.scheme && this.bars.querySelector("button") && this.answers.busy) return;
      this.bars.dataset.asked = one.scheme;
      fill(this.bars, h("div", { class: "bars" }, ask, status));
      return;
    }
    this.bars.dataset.asked = "";
    const found = (one.sensitivities.sensitivities ?? []).filter((s) => Math.abs(s.cliff) >= 0.005).slice(0, 6);
    fill(
      this.bars,
      h(
        "ul",
        { id: "moves" },
        ...found.map((s) =>
          h(
            "li",
            {},
            `A 1 % lower ${s.cost} moves the cliff by ${s.cliff > 0 ? "-" : "+"}${digits(Math.abs(s.cliff), 2)} %`,
            s.available === undefined || Math.abs(s.available) < 0.005
              ? ""
              : `, and leaves ${digits(Math.abs(s.available), 2)} % of a CPU ${s.available > 0 ? "less" : "more"} at half the cliff`,
          ),
        ),
        found.length === 0 ? h("li", {}, "No change of a cost by 1 % moves the cliff by 0.005 % or more.") : null,
      ),
    );
  }

  private limits(by: string[]): void {
    const said = new Map<string, number[]>();
    const add = (text: string, i: number): void => {
      const known = said.get(text) ?? [];
      if (!known.includes(i)) said.set(text, [...known, i]);
    };
    this.answers.schemes.forEach((one, i) => {
      if (one.noModel !== null)
        add(`The model has no curve: ${one.noModel}. The line joins the simulator's points.`, i);
      for (const warning of one.checked?.warnings ?? []) add(warning, i);
      for (const { outcome } of one.model) for (const note of outcome.notes ?? []) add(note, i);
      for (const { outcome } of one.sim.values()) for (const note of outcome.notes ?? []) add(`simulator: ${note}`, i);
      if (by[i] === "glance" && one.checked) add("Preliminary: short simulated runs, until the model answers.", i);
    });
    const items = [...said]
      .slice(0, 12)
      .map(([text, which]) =>
        h(
          "li",
          { class: text.startsWith("warning") ? "warning" : "" },
          ...which.map((i) => h("span", { class: `swatch s${i}` })),
          text,
        ),
      );
    fill(
      this.notes,
      ...(items.length > 0
        ? items
        : [
            h(
              "li",
              {},
              "None: the model is exact for its assumptions (docs/theory), and the simulator's intervals hold.",
            ),
          ]),
    );
    const most = Math.max(0, ...this.answers.schemes.flatMap((one) => [...one.sim.values()].map((s) => s.packets)));
    const packets =
      most > 0 ? `Simulated with ${most.toLocaleString("en")} packets a load, seed ${this.state.seed}. ` : "";
    say(this.progress, packets + (this.answers.busy ? "More packets are simulated; intervals become narrower." : ""));
  }

  private command(): string {
    const scheme = this.state.schemes[this.split] ?? "napi";
    const { loads, xMax } = this.answers;
    const rates =
      this.state.rates === "" ? `${pps(loads[0] ?? 1, 6)}..${pps(xMax, 6)}:${loads.length}` : this.state.rates;
    return command(this.state, scheme, "predict", ["--rates", rates]);
  }

  private async copyCommand(): Promise<void> {
    say(
      this.copied,
      (await copy(this.command())) ? "copied" : "the browser does not let this page copy: select the text",
    );
  }

  private async copyAddress(): Promise<void> {
    say(
      this.copied,
      (await copy(location.href)) ? "copied" : "the browser does not let this page copy: take it from the address bar",
    );
  }

  /** All that is drawn. */
  private csv(): string {
    const columns = [
      "engine",
      "scheme",
      "load_pps",
      "throughput_pps",
      "throughput_low",
      "throughput_high",
      "loss_ring",
      "loss_socket",
      "latency_mean_s",
      "latency_p50_s",
      "latency_p99_s",
      "latency_p999_s",
      "cpu_available",
    ];
    const row = (engine: string, scheme: string, load: number, o: Outcome): string => {
      const interval = ends(o.throughput_pps);
      const l = o.latency_s;
      const figures = [
        load,
        value(o.throughput_pps),
        interval?.[0],
        interval?.[1],
        value(o.loss?.ring ?? o.loss_fraction),
        value(o.loss?.socket),
        value(l?.mean),
        value(l?.p50),
        value(l?.p99),
        value(l?.p999),
        value(o.cpu?.available),
      ];
      return [engine, `"${scheme.replaceAll('"', '""')}"`, ...figures.map((f) => f ?? "")].join(",");
    };
    const rows = this.answers.schemes.flatMap((one: SchemeAnswers) => [
      ...one.model.map((p) => row("model", one.scheme, p.load_pps, p.outcome)),
      ...[...one.sim.values()].map((p) => row("sim", one.scheme, p.load, p.outcome)),
    ]);
    const wire = (this.finding?.finding.sweep ?? []).filter((p) => p.engine === "wire");
    rows.push(...wire.map((p) => row("wire", this.finding?.finding.setup.scheme ?? "", p.load_pps, p.outcome)));
    return `${[columns.join(","), ...rows].join("\n")}\n`;
  }

  /** Records as `netcliff predict --json` writes them. */
  private async records(): Promise<void> {
    const lines: string[] = [];
    const rates = this.answers.loads.map((load) => pps(load, 6)).join(",");
    for (const scheme of this.state.schemes) {
      const origin = {
        command: command(this.state, scheme, "predict", ["--rates", rates, "--json"]),
        started_unix_s: Date.now() / 1000,
      };
      const { reply } = await this.answers.ask("records", { setting: setting(this.state, scheme), rates, origin });
      if ("ok" in reply) for (const record of reply.ok as unknown[]) lines.push(JSON.stringify(record));
      else say(this.copied, reply.error.text);
    }
    download("netcliff.json", `${lines.join("\n")}\n`, "application/json");
  }
}

/** What of a state the answers depend on. */
function asked(state: State): string {
  return JSON.stringify({ ...state, set: [...state.set], view: "", rate: "" });
}

function livelock(left: number): string {
  const percent = `${digits(100 * left, 2)} %`;
  if (left < 0.5)
    return `At twice the cliff ${left < 0.005 ? "nothing" : percent} of the peak is delivered: receive livelock.`;
  return left < 0.9
    ? `At twice the cliff ${percent} of the peak is delivered.`
    : `At twice the cliff ${percent} of the peak is delivered: no livelock.`;
}

function short(one: SchemeAnswers | undefined): string {
  const text = one?.scheme ?? "";
  return text.length > 26 ? `${text.slice(0, 25)}…` : text;
}

function nearest<T extends { load_pps: number }>(points: [string, T][], load: number): [string, T] | null {
  let found: [string, T] | null = null;
  for (const point of points)
    if (found === null || Math.abs(point[1].load_pps - load) < Math.abs(found[1].load_pps - load)) found = point;
  return found;
}

function stack(points: CurvePoint[]): Area[] {
  const known = points.filter((p) => p.outcome.cpu !== undefined);
  const base = known.map(() => 0);
  return CPU_PARTS.map(([key]) => {
    const low = [...base];
    known.forEach((p, i) => {
      base[i] = (base[i] ?? 0) + (value(p.outcome.cpu?.[key]) ?? 0);
    });
    return { kind: key, x: known.map((p) => p.load_pps), low, high: [...base] };
  });
}
