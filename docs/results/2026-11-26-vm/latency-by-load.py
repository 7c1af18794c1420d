#!/usr/bin/env python3
"""The interrupt latency with which the simulator has as many packets a poll as the e1000 guest of README.md had at each load, by its calibrated costs.

NETCLIFF names the program (default: netcliff on PATH).
"""

import json
import os
import subprocess

NETCLIFF = os.environ.get("NETCLIFF", "netcliff")
SCHEME = "napi:ksoftirqd=true,gro_normal_batch=8,min_gap=128us"
# Costs of that guest's calibration (us), and packets a poll by load (kpps): measured loads, and trials of calibration and search.
COSTS_US = dict(interrupt=17.83, protocol=6.46, poll=8.14, mask=31.92, application=4.196, context_switch=31.37, wakeup=0)
PACKETS_A_POLL = {2: 1.133, 4: 1.249, 7: 1.562, 9.6: 1.92, 15: 2.934, 19.2: 3.6, 28.8: 5.8, 38.4: 8.2, 46.9: 10.1}


def simulated(kpps, latency_us):
    command = [NETCLIFF, "simulate", "--scheme", SCHEME, "--rate", f"{kpps}kpps", "--packets", "100000", "--json"]
    for key, us in {**COSTS_US, "interrupt_latency": latency_us}.items():
        command += ["--set", f"{key}={us}us"]
    command += ["--set", "per_byte=0.3ns"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return told["outcome"]["packets_per_poll"]["value"]


for kpps, measured in PACKETS_A_POLL.items():
    low, high = 0.0, 300.0
    while high - low > 2:
        middle = (low + high) / 2
        low, high = (middle, high) if simulated(kpps, middle) < measured else (low, middle)
    print(f"{kpps} kpps: {measured} packets a poll, {simulated(kpps, 0):.2f} simulated without latency, which is {low:.0f} to {high:.0f} us")
