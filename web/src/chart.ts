// Figures as SVG: lines, stacked areas, points with intervals, marks, a cursor. Colours are classes of style.css, so that themes
// need no drawing anew, and an exported figure carries them with it. Axes are those of a report's page.

import { type Axis, multiples, niceStep, part, powers } from "../../crates/report/src/html/axis.js";
import { digits } from "./format";

export interface Line {
  /** Number of its colour, 0 to 3; the dashes differ too. */
  colour: number;
  x: number[];
  y: (number | null)[];
  thin?: boolean;
  dashed?: boolean;
}
export interface Area {
  kind: string;
  x: number[];
  low: number[];
  high: number[];
}
export interface Dot {
  colour: number;
  x: number;
  y: number;
  ends: [number, number] | null;
  shape: "circle" | "diamond";
}
export interface Mark {
  colour: number;
  x: number;
  label: string;
  band?: [number, number] | null;
}
export interface Spec {
  title: string;
  yTitle: string;
  xTitle: string;
  xMax: number;
  yMin: number;
  yMax: number;
  logY?: boolean;
  yText: (y: number) => string;
  xText: (x: number) => string;
  lines: Line[];
  areas?: Area[];
  dots?: Dot[];
  marks?: Mark[];
  /** Draw delivered = offered. */
  diagonal?: boolean;
  cursor: number | null;
  /** Why there is nothing to see. */
  empty?: string;
}

const LEFT = 58;
const RIGHT = 14;
const TOP = 30;
const BOTTOM = 40;

function escapeText(text: string): string {
  return text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c] ?? c);
}

/** A place in a figure. */
function p(value: number): string {
  return value.toFixed(1);
}

export class Chart {
  private width = 0;
  private height = 0;
  private spec: Spec | undefined;
  private readonly svg: SVGSVGElement;
  private readonly axes: SVGGElement;
  private readonly marks: SVGGElement;
  private readonly drawn = new Map<SVGGElement, string>();

  constructor(
    readonly element: HTMLElement,
    private readonly onCursor: (x: number, pin: boolean) => void,
  ) {
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.svg.setAttribute("class", "chart");
    this.svg.setAttribute("role", "img");
    this.axes = document.createElementNS("http://www.w3.org/2000/svg", "g");
    this.marks = document.createElementNS("http://www.w3.org/2000/svg", "g");
    this.svg.append(this.axes, this.marks);
    this.element.append(this.svg);
    this.element.tabIndex = 0;
    new ResizeObserver(() => {
      this.measure();
      if (this.spec) this.draw(this.spec);
    }).observe(this.element);
    this.element.addEventListener("pointermove", (event) => {
      this.at(event, false);
    });
    this.element.addEventListener("pointerdown", (event) => {
      this.at(event, true);
    });
    this.element.addEventListener("keydown", (event) => {
      if (!this.spec) return;
      const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 }[event.key];
      let x: number;
      if (step !== undefined) x = (this.spec.cursor ?? this.spec.xMax / 2) + (step * this.spec.xMax) / 100;
      else if (event.key === "Home") x = this.spec.xMax / 100;
      else if (event.key === "End") x = this.spec.xMax;
      else return;
      event.preventDefault();
      this.onCursor(Math.min(Math.max(x, this.spec.xMax / 100), this.spec.xMax), true);
    });
  }

  private measure(): void {
    this.width = Math.max(this.element.clientWidth, 200);
    this.height = Math.max(this.element.clientHeight, 160);
  }

  private at(event: PointerEvent, pin: boolean): void {
    if (!this.spec) return;
    const box = this.svg.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (this.width - LEFT - RIGHT);
    if (share > 0 && share <= 1) this.onCursor(share * this.spec.xMax, pin);
  }

  draw(spec: Spec): void {
    this.spec = spec;
    if (this.width === 0) this.measure();
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("aria-label", this.summary(spec));
    this.set(this.axes, this.axesOf(spec));
    this.set(this.marks, this.marksOf(spec));
  }

  /** Texts are most of what a figure takes to be laid out, and those of its axes hardly ever change. */
  private set(group: SVGGElement, body: string): void {
    if (this.drawn.get(group) === body) return;
    group.innerHTML = body;
    this.drawn.set(group, body);
  }

  private summary(spec: Spec): string {
    const cliffs = (spec.marks ?? []).map((mark) => mark.label).join("; ");
    return `${spec.title} over ${spec.xTitle}. ${spec.empty ?? cliffs}`;
  }

  /** From values to places in the figure. */
  private places(spec: Spec): { X: (x: number) => number; Y: (y: number) => number } {
    const right = this.width - RIGHT;
    const bottom = this.height - BOTTOM;
    const along: Axis = { kind: "lin", low: 0, high: spec.xMax };
    const up: Axis =
      spec.logY === true
        ? { kind: "log", low: Math.log10(spec.yMin), high: Math.log10(spec.yMax) }
        : { kind: "lin", low: spec.yMin, high: spec.yMax };
    const X = (x: number): number => LEFT + part(along, x) * (right - LEFT);
    // What lies beyond an end, or has no logarithm, is drawn at the end.
    const Y = (y: number): number =>
      bottom - Math.min(Math.max(part(up, Math.max(y, spec.yMin)), 0), 1) * (bottom - TOP);
    return { X, Y };
  }

  private axesOf(spec: Spec): string {
    const { width: w, height: h } = this;
    const right = w - RIGHT;
    const bottom = h - BOTTOM;
    const { X, Y } = this.places(spec);
    const out: string[] = [];
    out.push(`<text class="title" x="${LEFT}" y="16">${escapeText(spec.title)}</text>`);
    const ticks = (low: number, high: number, most: number): number[] =>
      high > low ? multiples(low, high, niceStep((high - low) / most)) : [low];
    const most = Math.max(3, Math.round((bottom - TOP) / 42));
    const yTicks = spec.logY === true ? powers(spec.yMin, spec.yMax, 10, most) : ticks(spec.yMin, spec.yMax, most);
    for (const y of yTicks) {
      out.push(`<line class="grid" x1="${LEFT}" x2="${right}" y1="${p(Y(y))}" y2="${p(Y(y))}"/>`);
      out.push(
        `<text class="tick" text-anchor="end" x="${LEFT - 6}" y="${p(Y(y) + 4)}">${escapeText(spec.yText(y))}</text>`,
      );
    }
    for (const x of ticks(0, spec.xMax, Math.max(3, Math.round((right - LEFT) / 80)))) {
      out.push(`<line class="grid" x1="${p(X(x))}" x2="${p(X(x))}" y1="${TOP}" y2="${bottom}"/>`);
      out.push(
        `<text class="tick" text-anchor="middle" x="${p(X(x))}" y="${bottom + 16}">${escapeText(spec.xText(x))}</text>`,
      );
    }
    out.push(
      `<text class="axis" text-anchor="middle" x="${p((LEFT + right) / 2)}" y="${h - 6}">${escapeText(spec.xTitle)}</text>`,
    );
    if (spec.title.length * 7.5 + spec.yTitle.length * 6.5 < right - LEFT)
      out.push(`<text class="axis" text-anchor="end" x="${right}" y="16">${escapeText(spec.yTitle)}</text>`);
    return out.join("");
  }

  private marksOf(spec: Spec): string {
    const right = this.width - RIGHT;
    const bottom = this.height - BOTTOM;
    const { X, Y } = this.places(spec);
    const out: string[] = [];
    for (const area of spec.areas ?? []) {
      const up = area.x.map((x, i) => `${p(X(x))},${p(Y(area.high[i] ?? 0))}`);
      const down = area.x.map((x, i) => `${p(X(x))},${p(Y(area.low[i] ?? 0))}`).reverse();
      out.push(`<polygon class="area ${area.kind}" points="${[...up, ...down].join(" ")}"/>`);
    }
    if (spec.diagonal === true) {
      const end = Math.min(spec.xMax, spec.yMax);
      out.push(`<line class="diagonal" x1="${p(X(0))}" y1="${p(Y(0))}" x2="${p(X(end))}" y2="${p(Y(end))}"/>`);
    }
    let row = 0;
    for (const mark of spec.marks ?? []) {
      if (mark.x > spec.xMax) continue;
      if (mark.band) {
        const [from, to] = mark.band;
        const end = Math.min(to, spec.xMax);
        if (from < end)
          out.push(
            `<rect class="band s${mark.colour}" x="${p(X(from))}" width="${p(X(end) - X(from))}" y="${TOP}" height="${p(bottom - TOP)}"/>`,
          );
      }
      out.push(
        `<line class="cliff s${mark.colour}" x1="${p(X(mark.x))}" x2="${p(X(mark.x))}" y1="${TOP}" y2="${bottom}"/>`,
      );
      const y = bottom - 8 - 15 * row;
      const onLeft = X(mark.x) > (LEFT + right) * 0.62;
      out.push(
        `<text class="mark s${mark.colour}" text-anchor="${onLeft ? "end" : "start"}" x="${p(X(mark.x) + (onLeft ? -5 : 5))}" y="${p(y)}">${escapeText(mark.label)}</text>`,
      );
      row += 1;
    }
    for (const line of spec.lines) {
      let path = "";
      let pen = false;
      line.x.forEach((x, i) => {
        const y = line.y[i];
        if (y === null || y === undefined || x > spec.xMax * 1.0001) {
          pen = false;
          return;
        }
        path += `${pen ? "L" : "M"}${p(X(x))} ${p(Y(y))}`;
        pen = true;
      });
      const kinds = ["line", `s${line.colour}`, line.thin === true ? "thin" : "", line.dashed === true ? "dashed" : ""];
      out.push(`<path class="${kinds.join(" ")}" d="${path}"/>`);
    }
    for (const dot of spec.dots ?? []) {
      if (dot.x > spec.xMax) continue;
      const x = X(dot.x);
      const y = Y(dot.y);
      if (dot.ends) {
        const [from, to] = dot.ends;
        out.push(
          `<line class="whisker s${dot.colour}" x1="${p(x)}" x2="${p(x)}" y1="${p(Y(from))}" y2="${p(Y(to))}"/>`,
        );
        for (const end of [from, to])
          out.push(
            `<line class="whisker s${dot.colour}" x1="${p(x - 3)}" x2="${p(x + 3)}" y1="${p(Y(end))}" y2="${p(Y(end))}"/>`,
          );
      }
      out.push(
        dot.shape === "circle"
          ? `<circle class="dot s${dot.colour}" cx="${p(x)}" cy="${p(y)}" r="3.2"/>`
          : `<path class="dot measured" d="M${p(x)} ${p(y - 5)}L${p(x + 5)} ${p(y)}L${p(x)} ${p(y + 5)}L${p(x - 5)} ${p(y)}Z"/>`,
      );
    }
    if (spec.cursor !== null && spec.cursor <= spec.xMax) {
      out.push(`<line class="cursor" x1="${p(X(spec.cursor))}" x2="${p(X(spec.cursor))}" y1="${TOP}" y2="${bottom}"/>`);
    }
    out.push(`<path class="frame" d="M${LEFT} ${TOP}V${bottom}H${right}"/>`);
    if (spec.empty !== undefined && spec.empty !== "") {
      out.push(
        `<text class="empty" text-anchor="middle" x="${p((LEFT + right) / 2)}" y="${p((TOP + bottom) / 2)}">${escapeText(spec.empty)}</text>`,
      );
    }
    return out.join("");
  }

  /** The figure as a file of its own, in the theme that is seen. */
  file(): string {
    const copy = this.svg.cloneNode(true) as SVGSVGElement;
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", String(this.width));
    copy.setAttribute("height", String(this.height));
    const seen = this.svg.querySelectorAll("*");
    const wanted = ["fill", "stroke", "stroke-width", "stroke-dasharray", "fill-opacity", "font-size", "font-weight"];
    copy.querySelectorAll("*").forEach((element, i) => {
      const original = seen[i];
      if (!original) return;
      const style = getComputedStyle(original);
      for (const name of wanted) element.setAttribute(name, style.getPropertyValue(name));
      element.removeAttribute("class");
    });
    const back = getComputedStyle(document.body).backgroundColor;
    copy.insertAdjacentHTML("afterbegin", `<rect width="100%" height="100%" fill="${back}"/>`);
    copy.setAttribute("font-family", "system-ui, sans-serif");
    return copy.outerHTML;
  }

  /** The figure as pixels, twice as many as on the screen. */
  async pixels(): Promise<Blob> {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(this.file())}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * this.width;
    canvas.height = 2 * this.height;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve, reject) => {
      canvas.toBlob((blob) => {
        if (blob) resolve(blob);
        else reject(new Error("the browser made no picture"));
      });
    });
  }
}

/** A number of an axis of rates: 120k. */
export function shortRate(value: number): string {
  if (value >= 1e6) return `${digits(value / 1e6)}M`;
  return value >= 1e3 ? `${digits(value / 1e3)}k` : digits(value);
}
