#!/usr/bin/env python3
"""Measures the time that requests next to a transfer of BYTES (environment; default 6GiB) add to it. Transfers with and
without requests are made in pairs.

    pairs.py NETCLIFF PAIRS [OPTIONS of stream]

Prints one line per pair: goodput with and without requests (bit/s). The last line is the mean increase of the time,
from the mean of ln(without / with), with its 95 % interval."""
import json
import math
import os
import statistics
import subprocess
import sys

# 97.5 % quantiles of Student's t by degrees of freedom.
T = {5: 2.571, 7: 2.365, 9: 2.262, 11: 2.201, 15: 2.131, 19: 2.093, 23: 2.069, 29: 2.045}

netcliff, number, options = sys.argv[1], int(sys.argv[2]), sys.argv[3:]


def goodput_bps(*probe):
    command = [netcliff, "stream", "--bytes", os.environ.get("BYTES", "6GiB"), "--repeats", "1", "--cpu-meter", "procfs", "--json"]
    made = subprocess.run([*command, *probe, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(made.stdout)["rows"][0]["goodput_bps"]["median"]


pairs = []
for pair in range(1, number + 1):
    # The order alternates, so that drift affects both alike.
    if pair % 2:
        with_, without = goodput_bps("--probe", "--probe-around", "200ms"), goodput_bps()
    else:
        without = goodput_bps()
        with_ = goodput_bps("--probe", "--probe-around", "200ms")
    pairs.append((with_, without))
    print(with_, without, flush=True)
if len(pairs) < 2:
    sys.exit("pairs.py: an interval needs two pairs or more")
logs = [math.log(without / with_) for with_, without in pairs]
mean, sd = statistics.mean(logs), statistics.stdev(logs)
half = T.get(len(logs) - 1, 2.0) * sd / math.sqrt(len(logs))
low, mid, high = (100 * (math.exp(x) - 1) for x in (mean - half, mean, mean + half))
print(f"{len(pairs)} pairs: the transfer takes {mid:+.2f} % of its time more ({low:+.2f} to {high:+.2f} %), sd of a pair {100 * sd:.1f} %")
