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


def repeatability(name, runs, seconds):
    for key in ("cliff_pps", "cliff_experienced_pps"):
        cliffs = [value(run[key]["wire"]) for _, run in runs if run[key].get("wire") is not None]
        if len(cliffs) < 2:
            print(f"{name} {key}: {len(cliffs)} of {len(runs)} runs have one")
            continue
        pooled = statistics.median(cliffs)
        cv = statistics.stdev(cliffs) / statistics.mean(cliffs)
        which = "own" if key == "cliff_pps" else "experienced"
        covered = 0
        for _, run in runs:
            bounds = (run.get("searches") or {}).get(which, {})
            covered += bounds.get("lower_pps", 0.0) <= pooled <= bounds.get("upper_pps", math.inf)
        print(
            f"{name} {key}: {len(cliffs)} of {len(runs)} runs, median {pooled / 1e3:.0f} kpps, "
            f"{min(cliffs) / 1e3:.0f} to {max(cliffs) / 1e3:.0f}, CV {100 * cv:.1f} %, {covered} intervals cover the median"
        )
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
        ("find --quick --idle as-configured", "quick-as-configured-*.json"),
    ):
        runs = load(directory, pattern)
        if runs:
            repeatability(name, runs, seconds)
    prediction(load(directory, "check-*.json"), load(directory, "constant-*.json") + load(directory, "socket-*.json"))


if __name__ == "__main__":
    main()
