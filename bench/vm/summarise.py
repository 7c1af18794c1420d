#!/usr/bin/env python3
"""What run.sh measured against the bar: summarise.py OUTDIR.

Bar: for each of the six rx-usecs, interrupts/s and packets a poll at three loads within 15 % of the calibrated simulation, cliff within 20 % in
the median over both drivers and three runs. Errors are measured / simulated - 1.
"""

import json
import pathlib
import statistics
import sys

SHARES = [0.25, 0.5, 0.75]
FIGURES = ["interrupts_per_s", "packets_per_poll"]
LOADS_BAR, CLIFF_BAR = 0.15, 0.20


def value(figure):
    return figure["value"] if isinstance(figure, dict) else figure


def error(measured, simulated):
    measured, simulated = value(measured), value(simulated)
    return measured / simulated - 1 if measured is not None and simulated else None


def cliff(check):
    """The host's own where it was measured, else the one with all disturbances in."""
    for key in ["cliff_pps", "cliff_experienced_pps"]:
        by = check.get(key) or {}
        if by.get("wire") is not None:
            return key, error(by["wire"], by.get("sim"))
    return None, None


def loads(check):
    """{(share, figure): error} of the three loads."""
    below = check.get("below", [])
    measured = sorted((p for p in below if p["engine"] == "wire"), key=lambda p: p["load_pps"])
    found = {}
    top = max((p["load_pps"] for p in below), default=None)
    for point in measured:
        share = min(SHARES, key=lambda s: abs(point["load_pps"] / top * SHARES[-1] - s))
        sim = [p for p in below if p["engine"] == "sim" and abs(p["load_pps"] / point["load_pps"] - 1) < 1e-6]
        for figure in FIGURES if sim else []:
            found[share, figure] = error(point["outcome"].get(figure), sim[0]["outcome"].get(figure))
    return found


def text(err):
    return "   -   " if err is None else f"{100 * err:+6.1f}%"


def main(out):
    runs = {}
    for path in sorted(pathlib.Path(out).glob("*-[0-9]*.json")):
        driver, number = path.stem.rsplit("-", 1)
        runs[driver, int(number)] = json.loads(path.read_text())
    if not runs:
        sys.exit(f"summarise.py: no findings in {out}")
    drivers = sorted({driver for driver, _ in runs})
    errors, where = {}, {}
    for (driver, number), finding in runs.items():
        pauses = (finding.get("disturbance") or {}).get("host") or {}
        share = value(pauses.get("share_of_time", pauses.get("share")))
        paused = "" if share is None else f", host's CPU away {100 * share:.1f} % of the time"
        print(f"{driver} run {number}: {finding['provenance'].get('elapsed_s', 0):.0f} s, {len(finding['checks'])} checks{paused}")
        for missing in finding.get("missing", []):
            if missing["figure"].startswith("checks."):
                print(f"    {missing['figure']}: {missing['why'][:150]}")
        for check in finding["checks"]:
            key, err = cliff(check)
            errors.setdefault((check["name"], "cliff", None), {})[driver, number] = err
            where[key] = where.get(key, 0) + 1
            for (share, figure), err in loads(check).items():
                errors.setdefault((check["name"], figure, share), {})[driver, number] = err
    print(f"cliffs compared: {where} (cliff_experienced_pps: with all disturbances in)\n")
    print(f"{'set-up':14}{'figure':18}{'load':>6}  " + "".join(f"{d + ' ' + str(n):>12}" for d, n in sorted(runs)) + f"{'median':>9}  bar")
    tally, singles = {}, {}
    order = lambda item: (float(item[0][0].split("=")[-1]), item[0][1] != "cliff", item[0][1], item[0][2] or 0)
    for (name, figure, share), by in sorted(errors.items(), key=order):
        bar = CLIFF_BAR if figure == "cliff" else LOADS_BAR
        known = [err for err in by.values() if err is not None]
        median = statistics.median(known) if known else None
        passed = median is not None and abs(median) <= bar
        kind = "cliff" if figure == "cliff" else "loads"
        tally.setdefault(kind, []).append(passed)
        for run, err in by.items():
            singles.setdefault((run[0], kind), []).append(err is not None and abs(err) <= bar)
        cells = "".join(f"{text(by.get(run)):>12}" for run in sorted(runs))
        load = "" if share is None else f"{share:g}"
        print(f"{name:14}{figure:18}{load:>6}  {cells}{text(median):>9}  {'pass' if passed else 'MISS'} ({100 * bar:.0f} %)")
    print()
    for kind, results in tally.items():
        print(f"median over drivers and runs, {kind}: {sum(results)} of {len(results)} within the bar")
    for (driver, kind), results in sorted(singles.items()):
        print(f"single runs, {driver}, {kind}: {sum(results)} of {len(results)} within the bar")
    cliffs = [err for (_, figure, _), by in errors.items() if figure == "cliff" for err in by.values() if err is not None]
    if cliffs:
        print(f"cliff, median of all errors' sizes: {100 * statistics.median(map(abs, cliffs)):.1f} %")
    return all(all(results) for results in tally.values())


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1]) else 1)
