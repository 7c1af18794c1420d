// The view Watch: the simulator's trace packet by packet, one lane a scheme, all by one clock.

import { Lane } from "./lane";
import type { Timed } from "./engine";
import { fill, h, say } from "./dom";
import { duration, pps, rateOf, time } from "./format";
import { setting, type State } from "./state";
import type { Checked, Moments } from "./types";

type Ask = (call: "check" | "trace", question: unknown) => Promise<Timed<unknown>>;

/** Simulated time a second of the clock on the wall: from 20 us to 20 ms. */
const SLOWEST_S = 20e-6;
const FASTEST_S = 20e-3;
const SPEED_STEPS = 100;

export class Watch {
  readonly element: HTMLElement;
  private lanes: Lane[] = [];
  private readonly stage = h("div", {});
  private readonly play = h("button", { type: "button", id: "play" }, "Play");
  private readonly at = h("input", {
    type: "range",
    min: 0,
    max: 1000,
    value: 0,
    id: "watch-at",
    "aria-label": "Position in the run",
  });
  private readonly speed = h("input", { type: "range", min: 0, max: SPEED_STEPS, value: 40, id: "watch-speed" });
  private readonly speedText = h("span", { class: "hint" });
  private readonly clock = h("strong", { id: "watch-clock" });
  private readonly rate = h("input", { type: "text", id: "watch-rate", autocomplete: "off" });
  private readonly error = h("p", { class: "error", role: "status" });
  private now_s = 0;
  private end_s = 0;
  private playing = false;
  private last = 0;
  private asked = "";
  private state: State | null = null;

  constructor(change: (state: State) => void) {
    this.play.addEventListener("click", () => {
      this.set(!this.playing);
    });
    this.at.addEventListener("input", () => {
      this.now_s = (Number(this.at.value) / 1000) * this.end_s;
      this.draw();
    });
    this.speed.addEventListener("input", () => {
      this.told();
    });
    this.rate.addEventListener("change", () => {
      if (this.state) change({ ...this.state, rate: this.rate.value.trim() });
    });
    const step = h(
      "button",
      {
        type: "button",
        id: "step",
        click: () => {
          this.step();
        },
      },
      "Next event",
    );
    const back = h(
      "button",
      {
        type: "button",
        click: () => {
          this.now_s = 0;
          this.draw();
        },
      },
      "Back to the start",
    );
    this.told();
    this.element = h(
      "div",
      { class: "watch" },
      h(
        "div",
        { class: "bar" },
        this.play,
        step,
        back,
        h("label", { for: "watch-speed" }, "Speed", this.speed, this.speedText),
        h("label", { for: "watch-rate" }, "Offered", this.rate),
        h("label", {}, "At", this.at, this.clock),
      ),
      this.error,
      this.stage,
      h(
        "section",
        { class: "panel" },
        h("h2", {}, "What to look for"),
        h(
          "ul",
          {},
          h(
            "li",
            {},
            "A packet comes from the wire into the ring, the CPU processes it and puts it into the socket, and the application takes it from there. One CPU does all of it, and interrupts go first, then protocol processing, then the application.",
          ),
          h(
            "li",
            {},
            "Receive livelock: offer more than the cliff to the scheme interrupt. The strip of the CPU turns to interrupts and protocol processing, the socket is full, and packets that were just processed are dropped there.",
          ),
          h(
            "li",
            {},
            "Coalescing: the strip has fewer interrupts and longer stretches of protocol processing, and packets wait in the ring for the timer.",
          ),
          h("li", {}, "NAPI: one interrupt, then polls while packets keep coming."),
        ),
      ),
    );
  }

  private factor(): number {
    return SLOWEST_S * (FASTEST_S / SLOWEST_S) ** (Number(this.speed.value) / SPEED_STEPS);
  }

  private told(): void {
    const text = `${duration(Number(this.factor().toPrecision(2)))} of simulated time per second`;
    say(this.speedText, text);
    this.speed.setAttribute("aria-valuetext", text);
  }

  private set(playing: boolean): void {
    this.playing = playing;
    if (playing && this.now_s >= this.end_s) this.now_s = 0;
    say(this.play, playing ? "Pause" : "Play");
    this.last = performance.now();
    if (playing)
      requestAnimationFrame((now) => {
        this.tick(now);
      });
  }

  stop(): void {
    this.set(false);
  }

  private tick(now: number): void {
    if (!this.playing) return;
    this.now_s += Math.min((now - this.last) / 1000, 0.1) * this.factor();
    this.last = now;
    if (this.now_s >= this.end_s) {
      this.now_s = this.end_s;
      this.set(false);
    }
    this.draw();
    if (this.playing)
      requestAnimationFrame((next) => {
        this.tick(next);
      });
  }

  private step(): void {
    this.set(false);
    const next = Math.min(...this.lanes.map((lane) => lane.after(this.now_s)));
    if (Number.isFinite(next)) this.now_s = next;
    this.draw();
  }

  private draw(): void {
    const window_s = Math.max(this.factor() * 1.6, 40e-6);
    for (const lane of this.lanes) lane.draw(this.now_s, window_s, this.factor());
    say(this.clock, time(this.now_s, 4));
    const place = String(Math.round((1000 * this.now_s) / Math.max(this.end_s, 1e-12)));
    if (this.at.value !== place) this.at.value = place;
    this.at.setAttribute("aria-valuetext", time(this.now_s, 3));
  }

  /** Runs the schemes of a question and stands at their start. */
  async show(state: State, ask: Ask): Promise<void> {
    this.state = state;
    const key = JSON.stringify({ ...state, set: [...state.set], view: "" });
    if (key === this.asked) {
      this.draw();
      return;
    }
    this.asked = key;
    this.set(false);
    const lanes: Lane[] = [];
    let wrong = "";
    for (const [i, scheme] of state.schemes.entries()) {
      const asked = setting(state, scheme);
      const checked = (await ask("check", { setting: asked })).reply;
      if ("error" in checked) {
        wrong = checked.error.text;
        continue;
      }
      const { figures, frame_bytes } = checked.ok as Checked;
      const packet =
        (figures.protocol ?? 0) + (figures.per_byte ?? 0) * (frame_bytes ?? 64) + (figures.application ?? 0);
      const load = rateOf(state.rate) ?? 1.6 / Math.max(packet, 1e-9);
      this.rate.value = pps(load);
      const application = figures.application !== undefined;
      const ring = figures.ring ?? 0;
      const socket = application ? (figures.socket_buffer ?? 0) : 0;
      const packets = Math.min(Math.max(4 * (ring + socket), 3000), 20_000);
      const { reply } = await ask("trace", { setting: asked, rate: pps(load, 6), seed: state.seed, packets });
      if (this.asked !== key) return;
      if ("error" in reply) wrong = reply.error.text;
      else lanes.push(new Lane(scheme, i, reply.ok as Moments, ring, application ? socket : null));
    }
    this.lanes = lanes;
    say(this.error, wrong);
    this.end_s = Math.min(...lanes.map((lane) => lane.moments.end_s), Infinity);
    if (!Number.isFinite(this.end_s)) this.end_s = 0;
    // Some way into the run, so that there is something to see.
    this.now_s = Math.min(this.end_s, 1.6 * this.factor());
    fill(this.stage, ...lanes.map((lane) => lane.element));
    this.draw();
  }
}
