#!/usr/bin/env python3
"""summary.py rounds.csv: half round trips, medians with least and greatest, and the best peer over netcliff round by round.

Rule: a measurement that lost more than 2 % of the machine to the hypervisor is left out, and said."""
import csv
import statistics
import sys

STEAL = 0.02
rows, left_out, silent = [], 0, 0
for row in csv.DictReader(open(sys.argv[1], encoding="utf-8")):
    if row["mean_us"] == "-":
        silent += 1
    elif float(row["steal_share"]) > STEAL:
        left_out += 1
    else:
        rows.append(row)

print("| transport | tool | half round trip, mean (us) | least | greatest | transactions/s | rounds |")
print("| --- | --- | --- | --- | --- | --- | --- |")
ratios = []
for transport in sorted({row["transport"] for row in rows}):
    rounds = {}
    for tool in sorted({row["tool"] for row in rows}):
        means = [float(r["mean_us"]) for r in rows if r["transport"] == transport and r["tool"] == tool]
        if not means:
            continue
        median = statistics.median(means)
        print(f"| {transport} | {tool} | {median:.2f} | {min(means):.2f} | {max(means):.2f} | {5e5 / median:.0f} | {len(means)} |")
    for row in rows:
        if row["transport"] == transport:
            rounds.setdefault(row["round"], {})[row["tool"]] = float(row["mean_us"])
    paired = [min(us for tool, us in found.items() if tool in ("qperf", "sockperf")) / found["netcliff"]
              for found in rounds.values() if "netcliff" in found and {"qperf", "sockperf"} & found.keys()]
    if paired:
        ratios.append((transport, paired))
print()
for transport, paired in ratios:
    print(f"- {transport}: rate of netcliff over the best peer's of the same round: median {statistics.median(paired):.3f} "
          f"({min(paired):.3f} to {max(paired):.3f}, {len(paired)} rounds)")
print(f"\n{left_out} measurements left out for steal above {STEAL:.0%}; {silent} without a figure.")
