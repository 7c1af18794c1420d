#!/usr/bin/env python3
"""What the findings of a series have beside its bar: figures.py FINDING... (`netcliff find --json`)

A line a finding: its own cliff, measured and simulated (kpps), and medians of round trips by share of it (ms). Then by driver what the CPU available is simulated higher than measured, at the loads
of all checks where neither lost anything: median, deciles.
"""

import json
import pathlib
import statistics
import sys


def value(figure):
    return figure.get("value") if isinstance(figure, dict) else figure


def by_engine(below):
    loads = {}
    for point in below:
        loads.setdefault(point["load_pps"], {})[point["engine"]] = point["outcome"]
    return [at for at in loads.values() if {"wire", "sim"} <= at.keys() and all(not value(one["loss_fraction"]) for one in at.values())]


higher = {}
for path in map(pathlib.Path, sys.argv[1:]):
    finding = json.loads(path.read_text())
    measured, simulated = (1e-3 * (value(finding["cliff_pps"][engine]) or float("nan")) for engine in ("wire", "sim"))
    trips = ", ".join(f"{1e3 * at['p50_s']:.2f} at {at['share']}" for at in finding.get("round_trips", []))
    print(f"{path.stem}: cliff {measured:.1f} measured, {simulated:.1f} simulated; round trips {trips}")
    for check in finding["checks"]:
        for at in by_engine(check["below"]):
            available = [value(at[engine]["cpu"]["available"]) for engine in ("sim", "wire")]
            higher.setdefault(path.stem.rsplit("-", 1)[0], []).append(available[0] - available[1])
for driver, each in sorted(higher.items()):
    tenths = statistics.quantiles(each, n=10)
    print(f"{driver}: {len(each)} loads, available {statistics.median(each):+.2f} ({tenths[0]:+.2f} to {tenths[-1]:+.2f})")
