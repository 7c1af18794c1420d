// One scheme's host at work: wire, ring, CPU, socket, application, and below what the CPU did and how many packets waited.

import { h, say } from "./dom";
import { digits } from "./format";
import type { Moments } from "./types";

const OWNERS: Record<string, string> = {
  interrupt: "interrupt",
  poll: "poll",
  protocol: "protocol",
  application: "application",
  paused: "paused",
  idle: "idle",
};
/** A packet flies so long on the wall. */
const FLIGHT_S = 0.28;
/** Packets in flight that are drawn at once. */
const MOST_FLYING = 60;

/** First index whose time is after `at`. */
function upper(count: number, time: (i: number) => number, at: number): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time(middle) <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Lane {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { role: "img" });
  private readonly words = h("p", { class: "now" });
  /** Packets taken so far, at each level. */
  private readonly taken: number[] = [];
  private saidAt = 0;

  constructor(
    private readonly scheme: string,
    number: number,
    readonly moments: Moments,
    private readonly ring: number,
    private readonly socket: number | null,
  ) {
    let taken = 0;
    const { levels } = moments;
    levels.forEach((level, i) => {
      const before = levels[i - 1];
      const fell = (before?.[socket === null ? 1 : 2] ?? 0) - level[socket === null ? 1 : 2];
      if (fell > 0) taken += fell;
      this.taken.push(taken);
    });
    this.element = h(
      "section",
      { class: `panel lane` },
      h("h2", {}, h("span", { class: `swatch s${number}` }), scheme),
      this.canvas,
      this.words,
    );
  }

  /** Time of the next event (s); infinite at the end. */
  after(now: number): number {
    const { levels, cpu } = this.moments;
    const level = levels[upper(levels.length, (i) => levels[i]?.[0] ?? 0, now)]?.[0] ?? Infinity;
    const span = cpu[upper(cpu.length, (i) => cpu[i]?.[1] ?? 0, now)]?.[1] ?? Infinity;
    return Math.min(level, span);
  }

  private owner(now: number): string {
    const { cpu } = this.moments;
    const span = cpu[upper(cpu.length, (i) => cpu[i]?.[1] ?? 0, now) - 1];
    return span && span[2] > now ? span[0] : "idle";
  }

  draw(now: number, window_s: number, factor: number): void {
    const { canvas } = this;
    const scale = window.devicePixelRatio || 1;
    const width = canvas.clientWidth || 800;
    const height = canvas.clientHeight || 250;
    if (canvas.width !== Math.round(width * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const c = canvas.getContext("2d");
    if (!c) return;
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.clearRect(0, 0, width, height);
    const style = getComputedStyle(canvas);
    const colour = (name: string): string => style.getPropertyValue(`--${name}`).trim();
    const ink = colour("ink");
    const { levels } = this.moments;
    const index = upper(levels.length, (i) => levels[i]?.[0] ?? 0, now) - 1;
    const level = levels[index] ?? [0, 0, 0, 0, 0];
    const owner = this.owner(now);

    // The stations.
    const y = 52;
    const at = (share: number): number => 10 + share * (width - 20);
    const box = Math.min(width * 0.16, 150);
    const stations = { wire: at(0.02), ring: at(0.2), cpu: at(0.46), socket: at(0.7), application: at(0.93) };
    c.font = "12px system-ui, sans-serif";
    c.textAlign = "center";
    c.strokeStyle = colour("line");
    c.lineWidth = 1.5;
    c.beginPath();
    c.moveTo(stations.wire, y);
    c.lineTo(stations.application, y);
    c.stroke();
    this.queue(c, stations.ring, y, box, level[1], this.ring, "ring", colour);
    if (this.socket !== null) this.queue(c, stations.socket, y, box, level[2], this.socket, "socket", colour);
    const busy = owner !== "idle";
    c.fillStyle = busy ? colour(owner) : colour("panel");
    c.strokeStyle = busy ? colour(owner) : colour("line");
    c.beginPath();
    c.roundRect(stations.cpu - box * 0.42, y - 30, box * 0.84, 60, 10);
    c.fill();
    c.stroke();
    c.fillStyle = owner === "poll" ? "#1b1f24" : busy ? "#ffffff" : ink;
    c.font = "600 13px system-ui, sans-serif";
    c.fillText("CPU", stations.cpu, y - 8);
    c.font = "12px system-ui, sans-serif";
    c.fillText(OWNERS[owner] ?? owner, stations.cpu, y + 12);
    c.fillStyle = ink;
    c.textAlign = "left";
    c.fillText("wire", stations.wire - 6, y - 14);
    c.textAlign = "right";
    c.fillText(this.socket === null ? "delivered" : "application", width - 6, y - 14);
    c.font = "600 14px system-ui, sans-serif";
    c.fillText(String(this.taken[index] ?? 0), width - 6, y + 22);
    c.font = "12px system-ui, sans-serif";
    c.textAlign = "center";
    c.fillStyle = colour("bad");
    c.fillText(`lost ${level[3]}`, stations.ring, y + 54);
    if (this.socket !== null) c.fillText(`lost ${level[4]}`, stations.socket, y + 54);

    // Packets in flight.
    const flight = FLIGHT_S * factor;
    const from = upper(levels.length, (i) => levels[i]?.[0] ?? 0, now - flight);
    for (let i = Math.max(from, index - MOST_FLYING, 1); i <= index; i++) {
      const here = levels[i];
      const before = levels[i - 1];
      if (!here || !before) continue;
      const share = Math.min((now - here[0]) / Math.max(flight, 1e-12), 1);
      const fly = (a: number, b: number, fall: boolean): void => {
        c.globalAlpha = 1 - share * 0.6;
        c.fillStyle = fall ? colour("bad") : colour("accent");
        c.beginPath();
        c.arc(a + (b - a) * share, fall ? y + 8 + 36 * share : y, 4.5, 0, 7);
        c.fill();
        c.globalAlpha = 1;
      };
      if (here[3] > before[3]) fly(stations.ring - box / 2, stations.ring - box / 2 + 6, true);
      else if (here[4] > before[4]) fly(stations.socket - box / 2, stations.socket - box / 2 + 6, true);
      else if (here[1] > before[1]) fly(stations.wire, stations.ring - box / 2, false);
      else if (here[1] < before[1])
        fly(stations.ring + box / 2, this.socket === null ? stations.application : stations.socket - box / 2, false);
      else if (here[2] < before[2]) fly(stations.socket + box / 2, stations.application, false);
    }

    this.strip(c, now, window_s, width, height, colour);
    this.say(now, window_s, owner, level, this.taken[index] ?? 0);
  }

  private queue(
    c: CanvasRenderingContext2D,
    x: number,
    y: number,
    box: number,
    held: number,
    room: number,
    name: string,
    colour: (name: string) => string,
  ): void {
    const share = Math.min(held / Math.max(room, 1), 1);
    c.fillStyle = colour("panel");
    c.fillRect(x - box / 2, y - 18, box, 36);
    c.fillStyle = share > 0.98 ? colour("bad") : colour(name === "ring" ? "s0" : "s2");
    c.globalAlpha = 0.75;
    c.fillRect(x + box / 2 - box * share, y - 18, box * share, 36);
    c.globalAlpha = 1;
    c.strokeStyle = colour("soft");
    c.strokeRect(x - box / 2, y - 18, box, 36);
    c.fillStyle = colour("ink");
    c.fillText(`${name} ${held} of ${room}`, x, y - 25);
  }

  /** What the CPU did in the window before now, and how many packets waited. */
  private strip(
    c: CanvasRenderingContext2D,
    now: number,
    window_s: number,
    width: number,
    height: number,
    colour: (name: string) => string,
  ): void {
    const { cpu, levels } = this.moments;
    const top = 128;
    const bar = 34;
    const X = (t: number): number => width - 8 - ((now - t) / window_s) * (width - 16);
    c.fillStyle = colour("available");
    c.fillRect(X(Math.max(now - window_s, 0)), top, X(now) - X(Math.max(now - window_s, 0)), bar);
    for (let i = upper(cpu.length, (k) => cpu[k]?.[2] ?? 0, now - window_s); i < cpu.length; i++) {
      const span = cpu[i];
      if (!span || span[1] > now) break;
      const left = X(Math.max(span[1], now - window_s));
      c.fillStyle = colour(span[0]);
      c.fillRect(left, top, Math.max(X(Math.min(span[2], now)) - left, 0.6), bar);
    }
    c.fillStyle = colour("soft");
    c.textAlign = "left";
    c.fillText("work of the CPU over time, up to now", 8, top - 6);
    const low = height - 8;
    const high = top + bar + 22;
    c.fillText("packets waiting: ring (line), socket (dashed)", 8, high - 6);
    const most = Math.max(this.ring, this.socket ?? 0, 1);
    for (const [part, name, dash] of [
      [1, "s0", []],
      [2, "s2", [5, 3]],
    ] as [1 | 2, string, number[]][]) {
      if (part === 2 && this.socket === null) continue;
      c.strokeStyle = colour(name);
      c.lineWidth = 1.8;
      c.setLineDash(dash);
      c.beginPath();
      const begin = Math.max(upper(levels.length, (i) => levels[i]?.[0] ?? 0, now - window_s) - 1, 0);
      let y = low;
      c.moveTo(X(now - window_s), low - ((levels[begin]?.[part] ?? 0) / most) * (low - high));
      for (let i = begin; i < levels.length && (levels[i]?.[0] ?? Infinity) <= now; i++) {
        const level = levels[i];
        if (!level) break;
        const x = X(Math.max(level[0], now - window_s));
        c.lineTo(x, y);
        y = low - (level[part] / most) * (low - high);
        c.lineTo(x, y);
      }
      c.lineTo(X(now), y);
      c.stroke();
      c.setLineDash([]);
    }
  }

  private say(now: number, window_s: number, owner: string, level: number[], taken: number): void {
    const wall = performance.now();
    if (wall - this.saidAt < 200 && wall > this.saidAt) {
      // Words that change sixty times a second cannot be read.
      if (owner !== "idle" || now > 0) return;
    }
    this.saidAt = wall;
    const { cpu, levels } = this.moments;
    const from = Math.max(now - window_s, 0);
    const shares: Record<string, number> = {};
    for (let i = upper(cpu.length, (k) => cpu[k]?.[2] ?? 0, from); i < cpu.length; i++) {
      const span = cpu[i];
      if (!span || span[1] > now) break;
      shares[span[0]] = (shares[span[0]] ?? 0) + Math.min(span[2], now) - Math.max(span[1], from);
    }
    const length = Math.max(now - from, 1e-12);
    const parts = Object.entries(shares).map(
      ([name, s]) => `${OWNERS[name] ?? name} ${digits((100 * s) / length, 2)} %`,
    );
    const before = levels[Math.max(upper(levels.length, (i) => levels[i]?.[0] ?? 0, from) - 1, 0)];
    const lostSocket = (level[4] ?? 0) - (before?.[4] ?? 0);
    const starved = this.socket !== null && lostSocket > 0 && (shares.application ?? 0) / length < 0.05;
    const verdict = starved
      ? " Receive livelock: the CPU processes packets that are then dropped at a full socket buffer; the application gets no CPU time."
      : "";
    const text = `${taken} packets delivered. ${now > 0 ? `CPU time in the interval shown: ${parts.join(", ") || "nothing"}.` : "Press Play."}${verdict}`;
    say(this.words, text);
    this.canvas.setAttribute(
      "aria-label",
      `${this.scheme}: ring ${level[1] ?? 0} of ${this.ring}, lost there ${level[3] ?? 0}; socket ${level[2] ?? 0}, lost there ${level[4] ?? 0}. ${text}`,
    );
  }
}
