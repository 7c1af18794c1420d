#!/usr/bin/env python3
"""Summarises the findings that run.sh left: spread of the cliff, coverage of its intervals, errors of prediction.

Usage: summarise.py OUTDIR
"""
import json
import math
import pathlib
import statistics
import sys


def value(figure):
    """A figure is a number, or an object with its interval, or absent."""
    return figure.get("value") if isinstance(figure, dict) else figure


def load(directory, pattern):
    found = []
    for path in sorted(directory.glob(pattern)):
        text = path.read_text().strip()
        if text:
            found.append((path.stem, json.loads(text)))
        else:
            print(f"{path.stem}: no finding, see {path.stem}.err")
    return found


def cv(values):
    return 100 * statistics.stdev(values) / statistics.mean(values)


def by_speed(name, runs):
    """The spread of the host's own cliff after division by the run's own speed figures, where each run has them."""
    cliffs = [(value(run["cliff_pps"].get("wire")), run.get("speed") or {}) for _, run in runs]
    for what, normed in (
        ("1 / service demand (CPU time a packet)", lambda cliff, speed: cliff * value(speed["demand_s"])),
        ("turns of the loop a second", lambda cliff, speed: cliff / value(speed["turns_per_s"])),
        ("1 / CPU time against the calibrated costs", lambda cliff, speed: cliff * value(speed["slowness"])),
        ("1 / protocol time of a packet", lambda cliff, speed: cliff * value(speed["packet_s"])),
    ):
        try:
            values = [normed(cliff, speed) for cliff, speed in cliffs if cliff is not None]
        except KeyError:
            continue
        if len(values) > 1:
            pooled = statistics.median(values)
            covered = sum(covers(run, normed, pooled) for _, run in runs)
            print(f"{name} cliff_pps over {what}: CV {cv(values):.1f} %, {covered} intervals, divided alike, cover the median")


def covers(run, normed, pooled):
    """Whether the interval of the host's own cliff holds what all runs have in common, at this run's speed."""
    bounds, speed = (run.get("searches") or {}).get("own", {}), run.get("speed") or {}
    return normed(bounds.get("lower_pps", 0.0), speed) <= pooled <= normed(bounds.get("upper_pps", math.inf), speed)


def by_search(name, runs):
    """The same with each search's bounds by the service demand of its own trials: the speed changes within a run, too. The interval of a
    run is from the lowest of its searches' lower bounds to the highest of their upper ones, as find states it up to seven searches."""
    told = []
    for _, run in runs:
        searches = (run.get("searches") or {}).get("own", {}).get("searches", [])
        bounds = [
            (s["lower_pps"] * s["demand_s"], s["upper_pps"] * s["demand_s"])
            for s in searches
            if all(key in s for key in ("lower_pps", "upper_pps", "demand_s"))
        ]
        if bounds:
            middle = statistics.median(math.sqrt(low * high) for low, high in bounds)
            told.append((middle, min(low for low, _ in bounds), max(high for _, high in bounds)))
    if len(told) > 1:
        values = [middle for middle, _, _ in told]
        pooled = statistics.median(values)
        covered = sum(low <= pooled <= high for _, low, high in told)
        print(
            f"{name} cliff_pps over the speed of each search: {min(values):.3f} to {max(values):.3f} of the CPU, CV {cv(values):.1f} %, "
            f"{covered} intervals cover the median"
        )


def disturbances(name, runs):
    for cpu in ("host", "sender"):
        told = [pauses for _, run in runs if (pauses := (run.get("disturbance") or {}).get(cpu)) is not None]
        if told:
            longest = max(pauses.get("max_s", 0.0) for pauses in told)
            share = statistics.median(pauses["share"] for pauses in told)
            steal = statistics.median(pauses.get("steal_share", 0.0) for pauses in told)
            print(
                f"{name}: {cpu}'s CPU away {sum(pauses['count'] for pauses in told)} times in {len(told)} runs, median share {100 * share:.2f} % "
                f"(steal clock {100 * steal:.2f} %), longest {1e3 * longest:.1f} ms"
            )
    left_out = [(run.get("disturbance") or {}).get("left_out", 0.0) for _, run in runs]
    drift = [value((run.get("drift") or {}).get("share")) for _, run in runs if run.get("drift")]
    print(f"{name}: left out of the host's own cliff: median {100 * statistics.median(left_out):.1f} % of the slots, most {100 * max(left_out):.1f} %")
    if drift:
        print(f"{name}: drift of the speed over a run: {100 * min(drift):+.1f} to {100 * max(drift):+.1f} %")


def repeatability(name, runs, seconds):
    for key in ("cliff_pps", "cliff_experienced_pps"):
        cliffs = [value(run[key]["wire"]) for _, run in runs if run[key].get("wire") is not None]
        if len(cliffs) < 2:
            print(f"{name} {key}: {len(cliffs)} of {len(runs)} runs have one")
            continue
        pooled = statistics.median(cliffs)
        which = "own" if key == "cliff_pps" else "experienced"
        covered = 0
        for _, run in runs:
            bounds = (run.get("searches") or {}).get(which, {})
            covered += bounds.get("lower_pps", 0.0) <= pooled <= bounds.get("upper_pps", math.inf)
        print(
            f"{name} {key}: {len(cliffs)} of {len(runs)} runs, median {pooled / 1e3:.0f} kpps, "
            f"{min(cliffs) / 1e3:.0f} to {max(cliffs) / 1e3:.0f}, CV {cv(cliffs):.1f} %, {covered} intervals cover the median"
        )
    by_speed(name, runs)
    by_search(name, runs)
    disturbances(name, runs)
    contradictions = sum(len(run.get("contradictions", [])) for _, run in runs)
    void = sum(v["trials"] for _, run in runs for v in (run.get("searches") or {}).get("void", []))
    trials = sum((run.get("searches") or {}).get("trials", 0) for _, run in runs)
    taken = [seconds[stem] for stem, _ in runs if stem in seconds]
    print(f"{name}: {contradictions} contradictions named; {void} of {trials} trials void; wall time at most {max(taken, default=0)} s")


def prediction(checks, whole):
    errors, delivered, inside = [], [], [0, 0]
    setups = [(check["name"], check) for _, run in checks for check in run.get("checks", [])]
    setups += [(stem.rsplit("-", 1)[0], run) for stem, run in whole]
    for name, setup in setups:
        wire = value(setup["cliff_pps"].get("wire"))
        for engine in ("model", "sim"):
            figure = setup["cliff_pps"].get(engine)
            if wire and figure is not None:
                errors.append((abs(value(figure) / wire - 1), engine, name))
                if isinstance(figure, dict):
                    inside[1] += 1
                    inside[0] += figure["low"] <= wire <= figure["high"]
        for at in ("delivered_at_1_5_pps", "delivered_at_2_pps"):
            measured = value(setup.get(at, {}).get("wire"))
            for engine in ("model", "sim"):
                figure = value(setup.get(at, {}).get(engine))
                if measured and figure:
                    delivered.append((abs(figure / measured - 1), engine, name + " " + at))
    for title, found in (("cliff", errors), ("delivered past it", delivered)):
        for engine in ("model", "sim"):
            own = sorted(e for e in found if e[1] == engine)
            if own:
                print(
                    f"prediction of the {title} by {engine}: {len(own)} set-ups and runs, median error "
                    f"{100 * statistics.median(e[0] for e in own):.1f} %, worst {100 * own[-1][0]:.1f} % ({own[-1][2]})"
                )
    if inside[1]:
        print(f"{inside[0]} of {inside[1]} predictions with an interval hold the measured cliff")


def main():
    directory = pathlib.Path(sys.argv[1])
    lines = (directory / "seconds.txt").read_text().splitlines()
    seconds = {name: int(taken) for name, taken in (line.split() for line in lines)}
    for name, pattern in (
        ("find --quick", "quick-[0-9]*.json"),
        ("find", "full-*.json"),
        ("find --quick --idle as-configured", "as-configured-*.json"),
    ):
        runs = load(directory, pattern)
        if runs:
            repeatability(name, runs, seconds)
    prediction(load(directory, "check-*.json"), load(directory, "constant-*.json") + load(directory, "socket-*.json"))


if __name__ == "__main__":
    main()
