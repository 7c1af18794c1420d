#!/usr/bin/env python3
"""speeds.py FINDING...: for each finding of `netcliff find --json`, what the guest delivered past the cliff and what its calibration found."""
import json, sys

def number(quantity):
    return quantity["value"] if isinstance(quantity, dict) else quantity


def value(quantity):
    return round(quantity["value"]) if isinstance(quantity, dict) else (round(quantity) if quantity else "-")

for name in sys.argv[1:]:
    finding = json.load(open(name))
    wire = [point for point in finding.get("sweep", []) if point["engine"] == "wire"]
    past = [number(point["outcome"]["throughput_pps"]) for point in wire if number(point["outcome"]["loss_fraction"]) > 0.2]
    clean = [point["load_pps"] for point in wire if number(point["outcome"]["loss_fraction"]) <= 1e-3]
    costs = {}
    for cost in finding["calibration"]["costs"]:
        figure = cost["figure"]
        if cost["unit"] == "s" and isinstance(figure, dict):
            costs[cost["key"]] = "%.1f+-%.1f" % (figure["value"] * 1e6, (figure["high"] - figure["low"]) / 2 * 1e6)
    cliff = finding["cliff_pps"]
    print(name.split("/")[-1], "overload %d..%d pps," % (min(past or [0]), max(past or [0])), "highest load without loss", round(max(clean or [0])),
          "| cliff: wire", value(cliff.get("wire")), "sim", value(cliff.get("sim")), "model", value(cliff.get("model")), "| us:",
          ", ".join(f"{key} {costs[key]}" for key in ("interrupt", "poll", "protocol", "application") if key in costs))
