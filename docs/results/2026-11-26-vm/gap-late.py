#!/usr/bin/env python3
"""Loads of the igb guests of findings.tar.xz, simulated anew with and without gap_late: gap-late.py FINDING...

For each set-up the interrupt latency, the same at its three loads, with which the largest of the errors (measured over simulated - 1) is smallest, and all errors
with it: interrupts/s, then polls/s. Loads at which the guest had no CPU time left are left out: past its capacity polls find what they find.
NETCLIFF names the program (default: netcliff on PATH).
"""

import json
import os
import re
import subprocess
import sys

NETCLIFF = os.environ.get("NETCLIFF", "netcliff")
COSTS = """interrupt interrupt_polling protocol per_byte mask poll application context_switch wakeup cold_protocol cold_application socket_drop_cost
ring socket_buffer tick""".split()
LATENCIES_US = [0, 10, 20, 40, 60]
LATE_US = [0, 30]
LEAST_AVAILABLE = 0.02


def value(figure):
    return figure["value"] if isinstance(figure, dict) else figure


def simulated(host, scheme, pps, latency_us):
    command = [NETCLIFF, "simulate", "--scheme", scheme, "--rate", f"{pps / 1e3}kpps", "--packets", "60000", "--json"]
    for key in COSTS:
        if key in host:
            command += ["--set", f"{key}={host[key]}"]
    command += ["--set", f"interrupt_latency={latency_us}us"]
    outcome = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["outcome"]
    return value(outcome["interrupts_per_s"]), value(outcome["polls_per_s"])


def errors(check, points, late_us, latency_us):
    scheme = f"{re.sub(',gap_late=[^,]*', '', check['scheme'])},gap_late={late_us}us"
    found = []
    for point in points:
        interrupts, polls = simulated(check["host"], scheme, point["load_pps"], latency_us)
        outcome = point["outcome"]
        polled = point["load_pps"] / value(outcome["packets_per_poll"])
        found += [value(outcome["interrupts_per_s"]) / interrupts - 1, polled / polls - 1]
    return found


within = dict.fromkeys(LATE_US, 0)
count = 0
for path in sys.argv[1:]:
    with open(path) as file:
        finding = json.load(file)
    for check in finding["checks"]:
        has_time = lambda point: value(point["outcome"]["cpu"]["available"]) > LEAST_AVAILABLE
        points = [p for p in check["below"] if p["engine"] == "wire" and has_time(p)]
        count += 2 * len(points)
        for late_us in LATE_US if points else []:
            tried = [(errors(check, points, late_us, latency_us), latency_us) for latency_us in LATENCIES_US]
            best, latency_us = min(tried, key=lambda one: max(map(abs, one[0])))
            within[late_us] += sum(abs(error) <= 0.15 for error in best)
            each = " ".join(f"{100 * error:+4.0f}" for error in best)
            print(f"{os.path.basename(path)} {check['name']:13} gap_late {late_us:2} us, latency {latency_us:2} us: {each} %")
for late_us, good in within.items():
    print(f"gap_late {late_us:2} us: {good} of {count} within 15 %")
