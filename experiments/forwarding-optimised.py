"""Table and figures of forwarding-optimised.sh: medians over the rounds, measured and simulated."""

import glob
import html
import json
import os
import statistics
import sys

SET_UPS = {"plain": "#b2182b", "spread": "#d98200", "optimised": "#2166ac", "xdp": "#1b7837"}
LINES = {"1G": 1e9, "10G": 1e10, "25G": 25e9}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 300, 60, 700, 30, 250


def read(directory):
    """(frame bytes, set-up) -> list of (pps, limit, simulated pps or None)."""
    had = {}
    for path in sorted(glob.glob(f"{directory}/*.json")):
        if not os.path.getsize(path):
            print(f"# {path} is empty: see its log", file=sys.stderr)
            continue
        name = os.path.basename(path).rsplit("-", 1)[0]
        with open(path) as text:
            sizes = json.load(text)["sizes"]
        for size in sizes:
            found = (size.get("throughput") or {}).get("found", [{}])[0]
            if found.get("lower_pps"):
                one = (found["lower_pps"], size.get("limit", "?"), (size.get("predicted") or {}).get("simulated_pps"))
                had.setdefault((round(size["mean_bytes"]), name), []).append(one)
    return had


def middle(values):
    values = [value for value in values if value]
    return statistics.median(values) if values else None


def line_pps(line, size):
    return line / (8 * (size + 20))


def table(had, sizes, names):
    head = [f"{name}_{what}" for name in names for what in ("kpps", *(f"of_{line}" for line in LINES), "limit", "simulated_kpps")]
    yield ",".join(["frame_bytes", *head])
    for size in sizes:
        cells = [str(size)]
        for name in names:
            rounds = had.get((size, name), [])
            pps, simulated = middle(one[0] for one in rounds), middle(one[2] for one in rounds)
            if pps is None:
                cells += [""] * (len(LINES) + 3)
                continue
            cells.append(f"{pps / 1e3:.0f}")
            cells += [f"{pps / line_pps(line, size):.3f}" for line in LINES.values()]
            # A tester that was the limit in one round makes the median a lower limit.
            limits = {one[1] for one in rounds}
            cells.append("tester" if "tester" in limits else "+".join(sorted(limits)))
            cells.append(f"{simulated / 1e3:.0f}" if simulated else "")
        yield ",".join(cells)


def figure(had, sizes, names, title, line):
    """Share of a line's frame rate by size: lines are measured, rings simulated, hollow squares what only bounds the device."""
    top = 1.2
    x = lambda size: LEFT + (RIGHT - LEFT) * sizes.index(size) / max(len(sizes) - 1, 1)
    y = lambda share: BOTTOM - (BOTTOM - TOP) * min(share, top) / top
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}" font-family="sans-serif" font-size="12">']
    for tick in (0, 0.25, 0.5, 0.75, 1):
        stroke = "#444" if tick == 1 else "#ccc"
        parts.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="{stroke}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.0%}</text>')
    for size in sizes:
        parts.append(f'<text x="{x(size):.1f}" y="{BOTTOM + 16}" text-anchor="middle">{size}</text>')
    parts.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 34}" text-anchor="middle">frame size (bytes, FCS included)</text>')
    parts.append(f'<text x="{LEFT}" y="16">{html.escape(title)}</text>')
    for name in names:
        colour, dots = SET_UPS[name], []
        for size in sizes:
            rounds = had.get((size, name), [])
            pps, simulated = middle(one[0] for one in rounds), middle(one[2] for one in rounds)
            if pps is None:
                continue
            at = (x(size), y(pps / line_pps(line, size)))
            dots.append(at)
            fill = "white" if any(one[1] == "tester" for one in rounds) else colour
            parts.append(f'<rect x="{at[0] - 3:.1f}" y="{at[1] - 3:.1f}" width="6" height="6" fill="{fill}" stroke="{colour}"/>')
            if simulated:
                parts.append(f'<circle cx="{at[0]:.1f}" cy="{y(simulated / line_pps(line, size)):.1f}" r="5" fill="none" stroke="{colour}"/>')
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in dots)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    for at, name in enumerate(names):
        parts.append(f'<text x="{RIGHT - 90 * (len(names) - at)}" y="16" fill="{SET_UPS[name]}">{name}</text>')
    return "".join(parts) + "</svg>"


def main(directory):
    had = read(directory)
    sizes = sorted({size for size, _ in had})
    names = [name for name in SET_UPS if any(key[1] == name for key in had)]
    rows = list(table(had, sizes, names))
    print("\n".join(rows))
    pictures = [figure(had, sizes, names, f"Share of a {line} line that is forwarded", bps) for line, bps in LINES.items()]
    words = (
        "Squares: throughput, median over the rounds; hollow where the tester could offer no more, so that the device does at "
        "least that. Rings: the simulator's throughput for one server, the router's CPU, with the costs seen there at half the load. "
        "What lies above 120 % is drawn at the edge."
    )
    with open(f"{directory}/summary.html", "w") as out:
        out.write('<!doctype html><html lang="en"><meta charset="utf-8"><title>Forwarding, plain and optimised</title>')
        out.write('<body style="max-width:46rem;margin:auto;font-family:sans-serif"><h1>Forwarding, plain and optimised</h1>')
        out.write(f"<p>{words}</p>{''.join(pictures)}<div style='overflow-x:auto'><table border='1' cellpadding='3'>")
        for row in rows:
            out.write("<tr>" + "".join(f"<td>{html.escape(cell.replace('_', ' '))}</td>" for cell in row.split(",")) + "</tr>")
        out.write("</table></div></body></html>\n")


main(sys.argv[1])
