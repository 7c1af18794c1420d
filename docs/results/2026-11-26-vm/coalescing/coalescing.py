#!/usr/bin/env python3
"""How near simulation is to what `run coalescing-on-a-driver --csv` measured: coalescing.py CSV.

A line a driver and kind of NAPI: how many of the figures are within 15 %, and the median of the errors (measured over simulated - 1) and of their sizes, at loads below
capacity (1 % lost at most, and CPU time left). Set-ups follow one another in the file, each with the simulation first.
"""

import csv
import statistics
import sys

FIGURES = ["throughput_pps", "latency_mean_s", "interrupts_per_s", "packets_per_poll", "cpu_available"]
BAR, MOST_LOSS, LEAST_AVAILABLE = 0.15, 0.01, 0.02


def number(row, key):
    return float(row[key]) if row.get(key) else None


setups, seen = [], None
with open(sys.argv[1]) as file:
    for row in csv.DictReader(file):
        if row["engine"] == "model":
            continue
        if row["engine"] == "sim" and seen != "sim":
            setups.append([])
        seen = row["engine"]
        setups[-1].append(row)
kinds = {}
for rows in setups:
    simulated = {row["rate"]: row for row in rows if row["engine"] == "sim"}
    scheme = rows[0]["scheme"]
    kind = ("igb" if "gap=echo" in scheme else "e1000e", "threaded" if "threaded=true" in scheme else "softirq")
    kinds.setdefault(kind, []).extend((row, simulated[row["rate"]]) for row in rows if row["engine"] == "wire")
for (driver, napi), pairs in sorted(kinds.items()):
    has_room = lambda row: (number(row, "loss_fraction") or 0) <= MOST_LOSS and (number(row, "cpu_available") or 0) > LEAST_AVAILABLE
    below = [pair for pair in pairs if has_room(pair[0])]
    print(f"{driver}, {napi}: {len(pairs)} points measured, {len(below)} below capacity")
    for figure in FIGURES:
        both = [(number(wire, figure), number(sim, figure)) for wire, sim in below]
        errors = [wire / sim - 1 for wire, sim in both if wire is not None and sim]
        near = sum(abs(error) <= BAR for error in errors)
        median, size = statistics.median(errors), statistics.median(map(abs, errors))
        print(f"  {figure:17} {near:3} of {len(errors):3} within 15 %, median error {100 * median:+5.0f} %, of sizes {100 * size:4.0f} %")
