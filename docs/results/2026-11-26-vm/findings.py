#!/usr/bin/env python3
"""What findings of a device measured and simulated at each load: findings.py FINDING... (`netcliff find --json`)

A line a load of the sweep and of each check: loss, interrupts/s, packets a poll and CPU available, measured and simulated; then how many interrupts/s and packets a poll
are within 15 % of the simulation where neither lost anything, and how many cliffs within 20 %.
"""

import json
import sys


def value(figure):
    return figure.get("value") if isinstance(figure, dict) else figure


def by_load(points):
    loads = {}
    for point in points:
        loads.setdefault(round(point["load_pps"]), {})[point["engine"]] = point["outcome"]
    return sorted(loads.items())


def figures(outcome):
    if not outcome:
        return f"{'-':>34}"
    loss, interrupts, packets = (value(outcome.get(key)) or 0 for key in ("loss_fraction", "interrupts_per_s", "packets_per_poll"))
    available = value((outcome.get("cpu") or {}).get("available"))
    return f"{100 * loss:6.2f} % {interrupts:7.0f}/s {packets:6.1f} " + (f"{available:5.2f}" if available is not None else "    -")


def within(loads):
    close = []
    for _, engines in loads:
        if not {"wire", "sim"} <= engines.keys() or any(value(engines[e].get("loss_fraction")) for e in ("wire", "sim")):
            continue
        for key in ("interrupts_per_s", "packets_per_poll"):
            measured, simulated = (value(engines[e].get(key)) for e in ("wire", "sim"))
            if measured is not None and simulated:
                close.append(abs(measured / simulated - 1) <= 0.15)
    return close


for path in sys.argv[1:]:
    with open(path) as file:
        finding = json.load(file)
    finding = finding.get("finding", finding)
    print(path)
    every = [("sweep", finding["cliff_pps"], finding["sweep"])] + [(c["name"], c["cliff_pps"], c["below"]) for c in finding.get("checks", [])]
    close, cliffs = [], []
    for name, cliff, points in every:
        measured, simulated = value(cliff.get("wire")), value(cliff.get("sim"))
        both = [f"{figure / 1e3:.1f}" if figure else "-" for figure in (measured, simulated)]
        print(f"  {name}: cliff {both[0]} kpps measured, {both[1]} simulated")
        loads = by_load(points)
        if name != "sweep":
            close += within(loads)
            cliffs += [abs(measured / simulated - 1) <= 0.2] if measured and simulated else []
        for load_pps, engines in loads:
            print(f"    {load_pps / 1e3:5.1f} kpps  measured {figures(engines.get('wire'))}  simulated {figures(engines.get('sim'))}")
    if cliffs:
        print(f"  checks: {sum(close)} of {len(close)} figures without loss within 15 %, {sum(cliffs)} of {len(cliffs)} cliffs within 20 %")
