#!/usr/bin/env python3
"""Time that requests add to a transfer, from pairs.sh's lines: mean of ln(without / with) with its 95 % interval."""
import math
import statistics
import sys

# Two-sided 97.5 % quantiles of Student's t by degrees of freedom.
T = {5: 2.571, 7: 2.365, 9: 2.262, 11: 2.201, 15: 2.131, 19: 2.093, 23: 2.069, 29: 2.045}

pairs = [tuple(map(float, line.split())) for line in sys.stdin if line.strip()]
logs = [math.log(without / with_) for with_, without in pairs]
mean, sd = statistics.mean(logs), statistics.stdev(logs)
half = T.get(len(logs) - 1, 2.0) * sd / math.sqrt(len(logs))
low, mid, high = (100 * (math.exp(x) - 1) for x in (mean - half, mean, mean + half))
print(f"{len(pairs)} pairs: the transfer takes {mid:+.2f} % of its time more ({low:+.2f} to {high:+.2f} %), sd of a pair {100 * sd:.1f} %")
