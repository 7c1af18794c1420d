#!/usr/bin/env python3
"""How near simulation is to what `run two-timers --csv` measured: two-timers.py CSV.

Measured over simulated - 1, of interrupts a second and of packets a poll, by set-up and load. Set-ups follow one another in the file in the experiment's order, each
with the simulation first.
"""

import csv
import pathlib
import statistics
import sys
import tomllib

EXPERIMENT = pathlib.Path(__file__).parents[4] / "experiments/two-timers.toml"
FIGURES = ["interrupts_per_s", "packets_per_poll"]
BAR = 0.15

setups, seen = [], None
with open(sys.argv[1]) as file:
    for row in csv.DictReader(file):
        if row["engine"] == "sim" and seen != "sim":
            setups.append([])
        seen = row["engine"]
        setups[-1].append(row)
names = [device["name"] for device in tomllib.loads(EXPERIMENT.read_text())["device"]]
assert len(names) == len(setups), f"{len(setups)} set-ups measured of {len(names)}"
rates = [row["rate"] for row in setups[0] if row["engine"] == "sim"]
print(f"{'':38}{'':18}" + "".join(f"{rate:>9}" for rate in rates))
errors = []
for name, rows in zip(names, setups):
    simulated = {row["rate"]: row for row in rows if row["engine"] == "sim"}
    measured = {row["rate"]: row for row in rows if row["engine"] == "wire"}
    for figure in FIGURES:
        each = {rate: float(measured[rate][figure]) / float(simulated[rate][figure]) - 1 for rate in rates if rate in measured}
        errors += [(name, error) for error in each.values()]
        print(f"{name:38}{figure:18}" + "".join(f"{100 * each[rate]:+8.1f}%" if rate in each else f"{'-':>9}" for rate in rates))
sizes = [abs(error) for _, error in errors]
print(f"\n{sum(size <= BAR for size in sizes)} of {len(sizes)} within 15 %, median size {100 * statistics.median(sizes):.1f} %")
