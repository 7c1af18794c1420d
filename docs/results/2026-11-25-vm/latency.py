#!/usr/bin/env python3
"""latency.py NETCLIFF FINDING CHECK,... LATENCY,...: interrupts/s and packets a poll of a finding's checks as measured, and as its calibration
simulates them with softirqs that wait for ksoftirqd and an interrupt latency of so much."""
import json
import subprocess
import sys
import tempfile


def value(figure):
    return figure["value"] if isinstance(figure, dict) else figure


def host_file(costs, latency):
    with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
        for key, cost in {**costs, "interrupt_latency": latency}.items():
            if cost is not None:
                file.write(f"{key} = {json.dumps(cost)}\n")
    return file.name


def simulated(netcliff, host, scheme, load):
    command = [netcliff, "simulate", "--host", host, "--scheme", scheme + ",ksoftirqd=true", "--rate", f"{load:.0f}pps", "--size", "64B", "--json"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    told = told["points"][0] if "points" in told else told
    outcome = told.get("outcome", told)
    return round(value(outcome["interrupts_per_s"])), round(value(outcome["packets_per_poll"]), 2), round(value(outcome["loss_fraction"]), 3)


netcliff, name, checks, latencies = sys.argv[1:]
for check in json.load(open(name))["checks"]:
    if check["name"] not in checks.split(","):
        continue
    wire = [point for point in check["below"] if point["engine"] == "wire"]
    cliff = value(check["cliff_pps"]["wire"])
    print(name, check["name"], "measured (load, interrupts/s, packets a poll)")
    for point in wire:
        outcome = point["outcome"]
        print("   ", round(point["load_pps"]), round(value(outcome["interrupts_per_s"])), round(value(outcome["packets_per_poll"]), 2))
    print("    cliff", cliff and round(cliff))
    for latency in latencies.split(","):
        host = host_file(check["host"], latency)
        loads = [point["load_pps"] for point in wire] + ([cliff] if cliff else [])
        print("   latency", latency, [simulated(netcliff, host, check["scheme"], load) for load in loads])
