#!/usr/bin/env python3
"""udp.py udp.csv: datagrams received a second, medians with least and greatest, and each way of netcliff over the best peer round
by round.

Rule: a measurement that lost more than 2 % of the machine to the hypervisor is left out, and said."""
import csv
import statistics
import sys

STEAL = 0.02
found, left_out, silent = {}, 0, 0
for row in csv.DictReader(open(sys.argv[1], encoding="utf-8")):
    if row["received_pps"] in ("-", "null"):
        silent += 1
    elif float(row["steal_share"]) > STEAL:
        left_out += 1
    else:
        found.setdefault(row["tool"], {})[row["round"]] = float(row["received_pps"])

print("| tool | received kpps, median | least | greatest | rounds |")
print("| --- | --- | --- | --- | --- |")
for tool, rounds in sorted(found.items()):
    kpps = [pps / 1e3 for pps in rounds.values()]
    print(f"| {tool} | {statistics.median(kpps):.0f} | {min(kpps):.0f} | {max(kpps):.0f} | {len(kpps)} |")
print()
peers = [tool for tool in found if not tool.startswith("netcliff")]
for tool in sorted(found):
    if tool in peers:
        continue
    best = {n: max(found[p][n] for p in peers if n in found[p]) for n in found[tool] if any(n in found[p] for p in peers)}
    ratios = [found[tool][n] / pps for n, pps in best.items() if pps > 0]
    if ratios:
        print(f"- {tool} over the best peer of the same round: median {statistics.median(ratios):.2f} "
              f"({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} rounds)")
print(f"\n{left_out} measurements left out for steal above {STEAL:.0%}; {silent} without a figure.")
