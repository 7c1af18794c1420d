// Figures of a netcliff page: read-out at a load, curves to hide, a part to enlarge, downloads. Every figure is whole
// without it. The values are those of the figure's CSV; the drawing is only moved, never made anew. Axes: axis.js, which stands before it.
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const make = (name, attributes, parent) => {
    const one = document.createElementNS(NS, name);
    for (const key in attributes) one.setAttribute(key, attributes[key]);
    if (parent) parent.append(one);
    return one;
  };
  const element = (name, attributes, ...content) => {
    const one = document.createElement(name);
    for (const key in attributes) one.setAttribute(key, attributes[key]);
    one.append(...content);
    return one;
  };
  const round = (number) => Math.round(number * 100) / 100;

  // Values as the report writes them: three digits and a unit.
  const digits = (value, lead) => {
    if (value === 0) return "0";
    const rounded = Number(Math.abs(lead).toPrecision(3));
    if (rounded && rounded < 1e-4) return value.toExponential(2);
    return value.toFixed(rounded ? Math.min(9, Math.max(0, 2 - Math.floor(Math.log10(rounded)))) : 0);
  };
  const unitFor = (axis, value) => {
    const rounded = Number(Math.abs(value).toPrecision(3));
    return axis.units.find(([factor]) => rounded >= factor * (1 - 1e-9)) || axis.units[axis.units.length - 1];
  };
  const binary = (bytes) => {
    const unit = [[1073741824, " GiB"], [1048576, " MiB"], [1024, " KiB"], [1, " B"]].find(([one]) => bytes >= one) || [1, " B"];
    return Math.round((100 * bytes) / unit[0]) / 100 + unit[1];
  };
  const written = (axis, value) => {
    if (axis.steps === "bin") return binary(value);
    if (axis.steps === "frames") return Math.round(value) + " B";
    const [factor, suffix] = unitFor(axis, value);
    return digits(value / factor, value / factor) + suffix;
  };
  const withEnds = (axis, [, y, low, high, note]) => {
    if (note === "at least") return "\u2265 " + written(axis, y);
    if (low === null) return written(axis, y) + (note ? ", " + note : "");
    const [factor, suffix] = unitFor(axis, y || high);
    const end = (value) => digits(value / factor, (y || high) / factor);
    const value = y ? written(axis, y) : "0" + suffix;
    return `${value} (${end(low)}\u2013${end(high)})` + (note ? ", " + note : "");
  };

  // Ticks of the part of an axis that is shown: [place, label].
  const ticks = (axis, [from, to], most) => {
    const [low, high] = [valueAt(axis, from), valueAt(axis, to)];
    let values = [];
    let label = (value) => written(axis, value).replace(/(\.\d*?)0+(?= |$)/, "$1").replace(/\.(?= |$)/, "");
    if (axis.steps === "frames" && axis.frames.filter((size) => size >= low && size <= high).length > 1) {
      values = axis.frames.filter((size) => size >= low && size <= high).sort((a, b) => a - b);
      label = String;
    } else if (axis.kind === "lin" || high / low < 30) {
      const base = axis.kind === "lin" && axis.steps === "dec" ? unitFor(axis, axis.high)[0] : 0;
      const raw = (high - low) / (base || 1) / most;
      const step = axis.steps === "bin" ? 2 ** Math.ceil(Math.log2(raw)) : niceStep(raw);
      values = multiples(low, high, step * (base || 1));
      if (base) label = (value) => String(Number((value / base).toPrecision(9)));
    } else {
      values = powers(low, high, axis.steps === "bin" ? 2 : 10, most);
      if (axis.steps === "dec" && axis.units[0][1] === " %") label = (value) => Number((100 * value).toPrecision(6)).toFixed(10).replace(/\.?0+$/, "") + " %";
    }
    return values.map((value) => [part(axis, value), label(value)]).filter(([at]) => at >= from - 1e-9 && at <= to + 1e-9);
  };

  const save = (name, url) => element("a", { download: name, href: url }).click();

  // The whole drawing, title and legend too, as a file of its own.
  const alone = (svg) => {
    const copy = svg.cloneNode(true);
    const full = copy.getAttribute("data-full");
    copy.querySelectorAll(".cursor, .frame").forEach((one) => one.remove());
    copy.setAttribute("viewBox", full);
    copy.setAttribute("xmlns", NS);
    copy.setAttribute("width", full.split(" ")[2]);
    copy.setAttribute("height", full.split(" ")[3]);
    return new XMLSerializer().serializeToString(copy);
  };
  const asUrl = (text) => "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  const savePng = (name, svg) => {
    const [, , width, height] = svg.getAttribute("data-full").split(" ").map(Number);
    const image = new Image();
    image.onload = () => {
      const canvas = element("canvas", { width: 2 * width, height: 2 * height });
      canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
      save(name, canvas.toDataURL("image/png"));
    };
    image.src = asUrl(alone(svg));
  };

  const enliven = (figure) => {
    const stage = figure.querySelector(".stage");
    const svgs = [...stage.querySelectorAll("svg")];
    const tools = figure.querySelector(".tools");
    const name = "netcliff-" + figure.dataset.name;
    const button = (text, act) => {
      const one = element("button", { type: "button" }, text);
      one.addEventListener("click", act);
      tools.append(" ", one);
      return one;
    };
    const wide = svgs[0];
    button("SVG", () => save(name + ".svg", asUrl(alone(wide))));
    button("PNG", () => savePng(name + ".png", wide));
    const source = figure.querySelector("script.data");
    if (!source) return;

    const data = JSON.parse(source.textContent);
    const hidden = new Set();
    // The part that is shown, as shares of the whole axes.
    let view = { x: [0, 1], y: [0, 1] };
    let cursor = null;

    // Legend: a button a curve, which also shows its value.
    const values = [];
    for (const item of figure.querySelectorAll(".keys li")) {
      const key = Number(item.dataset.key);
      const value = element("span", { class: "value" });
      const one = element("button", { type: "button", "aria-pressed": "true", title: "Show or hide" }, ...item.childNodes);
      one.addEventListener("click", () => {
        if (!hidden.delete(key)) hidden.add(key);
        one.setAttribute("aria-pressed", String(!hidden.has(key)));
        for (const series of figure.querySelectorAll("[data-s]")) {
          const of = keyOf(Number(series.dataset.s));
          series.style.display = hidden.has(of) ? "none" : "";
        }
        read(cursor);
      });
      item.append(one, value);
      values[key] = value;
    }
    // Helping lines have no data: their place in the drawing is the one that no curve has.
    const keys = new Map(data.series.map((series) => [series.at, series.key]));
    const keyOf = (at) => keys.has(at) ? keys.get(at) : data.keys.findIndex((_, key) => !data.series.some((s) => s.key === key));
    const help = element("p", { class: "where" }, "Point at the plot or use \u2190 \u2192 to read values; drag to enlarge, Esc or double click to reset.");
    const spoken = element("output", { class: "spoken" });
    stage.after(help, spoken);
    const rest = help.textContent;
    stage.tabIndex = 0;
    stage.setAttribute("role", "group");
    stage.setAttribute("aria-label", "Values of the figure: left and right arrow keys go from value to value");

    const frame = (svg) => svg.dataset.plot.split(" ").map(Number);
    const shown = () => svgs.find((svg) => svg.getBoundingClientRect().width > 0) || wide;
    const seen = (axis, value) => {
      const [from, to] = view[axis];
      return (part(data[axis], value) - from) / (to - from);
    };
    const places = () => {
      const all = data.series.filter((series) => !hidden.has(series.key)).flatMap((series) => series.dots.map((dot) => dot[0]));
      return [...new Set(all)].filter((x) => seen("x", x) >= -1e-9 && seen("x", x) <= 1 + 1e-9).sort((a, b) => a - b);
    };

    // All curves at a load: each by the value it has nearest to it, and where that is.
    const read = (x, aloud) => {
      cursor = x;
      svgs.forEach((svg) => svg.querySelector(".cursor")?.remove());
      values.forEach((value) => (value.textContent = ""));
      if (x === null) {
        help.textContent = rest;
        spoken.textContent = "";
        return;
      }
      const texts = data.keys.map(() => []);
      for (const series of data.series) {
        if (hidden.has(series.key) || !series.dots.length) continue;
        const far = (dot) => Math.abs(part(data.x, dot[0]) - part(data.x, x));
        const near = series.dots.reduce((best, dot) => (far(dot) < far(best) ? dot : best));
        const where = far(near) > 0.004 ? " at " + written(data.x, near[0]) : "";
        texts[series.key].push((series.who ? series.who + " " : "") + withEnds(data.y, near) + where);
      }
      texts.forEach((all, key) => values[key] && (values[key].textContent = all.join("; ")));
      help.textContent = `${data.x.name} ${written(data.x, x)}`;
      if (aloud) spoken.textContent = help.textContent + ": " + data.keys.map((key, at) => texts[at].length ? `${key} ${texts[at].join("; ")}` : "").filter(Boolean).join(". ");
      for (const svg of svgs) {
        const [left, top, width, height] = frame(svg);
        const at = round(left + seen("x", x) * width);
        make("path", { class: "cursor", d: `M${at} ${top}V${top + height}`, stroke: "currentColor", "stroke-dasharray": "2 2", color: "#59636e" }, svg);
      }
    };

    // Moves what is drawn: every coordinate is a share of the axes.
    const zoomed = () => view.x[0] > 0 || view.x[1] < 1 || view.y[0] > 0 || view.y[1] < 1;
    const redraw = () => {
      for (const svg of svgs) {
        const [left, top, width, height] = frame(svg);
        const across = (x) => round(left + width * (((x - left) / width - view.x[0]) / (view.x[1] - view.x[0])));
        const down = (y) => round(top + height * (1 - (1 - (y - top) / height - view.y[0]) / (view.y[1] - view.y[0])));
        for (const one of svg.querySelectorAll(".zoom path, .zoom text")) {
          const moved = one.hasAttribute("transform") ? "transform" : one.tagName === "text" ? "x" : "d";
          one.whole ??= [one.getAttribute(moved), one.getAttribute("y")];
          const [whole, y] = one.whole;
          if (!zoomed()) {
            one.setAttribute(moved, whole);
            if (y) one.setAttribute("y", y);
          } else if (moved === "x") {
            one.setAttribute("x", across(Number(whole)));
            one.setAttribute("y", down(Number(y)));
          } else {
            one.setAttribute(moved, whole.replace(/(-?[\d.]+) (-?[\d.]+)/g, (_, x, y) => `${across(Number(x))} ${down(Number(y))}`));
          }
        }
        const clip = svg.querySelector("clipPath rect");
        clip.whole ??= ["x", "y", "width", "height"].map((key) => clip.getAttribute(key));
        (zoomed() ? [left, top, width, height] : clip.whole).forEach((value, at) => clip.setAttribute(["x", "y", "width", "height"][at], value));
        svg.querySelectorAll(".ends, .gap").forEach((one) => (zoomed() ? one.setAttribute("display", "none") : one.removeAttribute("display")));
        const group = svg.querySelector(".ticks");
        group.whole ??= [...group.childNodes];
        if (!zoomed()) {
          group.replaceChildren(...group.whole);
          continue;
        }
        group.replaceChildren();
        const narrow = svg !== wide;
        for (const [at, label] of ticks(data.y, view.y, 6)) {
          const y = round(top + height * (1 - (at - view.y[0]) / (view.y[1] - view.y[0])));
          make("path", { class: "grid", d: `M${left} ${y}H${left + width}`, stroke: "#e4e4e4" }, group);
          make("text", { class: "ink", x: left - 7, y: y + 4.7, "text-anchor": "end", fill: "#222222" }, group).textContent = label;
        }
        let end = -Infinity;
        for (const [at, label] of ticks(data.x, view.x, narrow ? 3 : 6)) {
          const x = round(left + (width * (at - view.x[0])) / (view.x[1] - view.x[0]));
          make("path", { class: "axis", d: `M${x} ${top + height}v5`, stroke: "#7d8590" }, group);
          if (x - 4 * label.length < end) continue;
          end = x + 4 * label.length + 6;
          make("text", { class: "ink", x, y: top + height + 21.5, "text-anchor": "middle", fill: "#222222" }, group).textContent = label;
        }
      }
      read(cursor);
    };
    const reset = () => {
      view = { x: [0, 1], y: [0, 1] };
      redraw();
    };

    // Places under the pointer, as shares of the part that is shown.
    const under = (event) => {
      const svg = shown();
      const [left, top, width, height] = frame(svg);
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const clip = (share) => Math.min(1, Math.max(0, share));
      return [clip((at.x - left) / width), clip(1 - (at.y - top) / height)];
    };
    let begun = null;
    const nearest = (share) => {
      const all = places();
      return all.length ? all.reduce((best, x) => (Math.abs(seen("x", x) - share) < Math.abs(seen("x", best) - share) ? x : best)) : null;
    };
    stage.addEventListener("pointermove", (event) => {
      const [x, y] = under(event);
      read(nearest(x));
      if (!begun) return;
      const svg = shown();
      const [left, top, width, height] = frame(svg);
      svg.querySelector(".frame")?.remove();
      const upright = Math.abs(y - begun[1]) > 0.12;
      const [low, high] = upright ? [Math.max(y, begun[1]), Math.min(y, begun[1])] : [1, 0];
      make("rect", { class: "frame", x: left + Math.min(x, begun[0]) * width, width: Math.abs(x - begun[0]) * width, y: top + (1 - low) * height, height: (low - high) * height, fill: "#0072b2", opacity: 0.15 }, svg);
    });
    stage.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && event.pointerType !== "touch") {
        begun = under(event);
        stage.setPointerCapture(event.pointerId);
      } else {
        read(nearest(under(event)[0]));
      }
    });
    stage.addEventListener("pointerup", (event) => {
      if (!begun) return;
      const [x, y] = under(event);
      const [from, low] = begun;
      begun = null;
      shown().querySelector(".frame")?.remove();
      if (Math.abs(x - from) < 0.02) return;
      const inner = ([a, b], one, two) => [a + (b - a) * Math.min(one, two), a + (b - a) * Math.max(one, two)];
      view = { x: inner(view.x, x, from), y: Math.abs(y - low) > 0.12 ? inner(view.y, y, low) : view.y };
      redraw();
    });
    stage.addEventListener("pointerleave", () => begun || read(null));
    stage.addEventListener("dblclick", reset);
    stage.addEventListener("keydown", (event) => {
      const all = places();
      const at = all.indexOf(cursor);
      const next = { ArrowRight: at + 1, ArrowLeft: at < 0 ? all.length - 1 : at - 1, Home: 0, End: all.length - 1 }[event.key];
      if (event.key === "Escape") {
        reset();
        read(null);
      } else if (next !== undefined && all.length) {
        event.preventDefault();
        read(all[Math.min(all.length - 1, Math.max(0, next))], true);
      }
    });
  };
  document.querySelectorAll("figure.plot").forEach(enliven);
})();
