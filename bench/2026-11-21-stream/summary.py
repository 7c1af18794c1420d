#!/usr/bin/env python3
"""summary.py rounds.csv: medians with least and greatest, and netcliff against the best peer round by round.

Rule: a round whose measurement lost more than 2 % of the machine to the hypervisor is left out, and said."""
import csv
import statistics
import sys

STEAL = 0.02
rows, left_out = [], 0
for row in csv.DictReader(open(sys.argv[1], encoding="utf-8")):
    if row["bps"] == "-":
        continue
    if float(row["steal_share"]) > STEAL:
        left_out += 1
        continue
    rows.append(row)

print("| offloads | congestion | block | tool | median Gbit/s | least | greatest | rounds | machine busy |")
print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
keys = sorted({(r["offloads"], r["congestion"], int(r["block_bytes"])) for r in rows})
ratios = []
for key in keys:
    by_tool = {}
    for r in rows:
        if (r["offloads"], r["congestion"], int(r["block_bytes"])) == key:
            by_tool.setdefault(r["tool"], []).append(r)
    for tool, found in sorted(by_tool.items()):
        gbps = [float(r["bps"]) / 1e9 for r in found]
        busy = statistics.median(float(r["busy_share"]) for r in found)
        print(f"| {key[0]} | {key[1]} | {key[2]} | {tool} | {statistics.median(gbps):.2f} | {min(gbps):.2f} | "
              f"{max(gbps):.2f} | {len(gbps)} | {busy:.0%} |")
    rounds = {}
    for tool, found in by_tool.items():
        for r in found:
            rounds.setdefault(r["round"], {})[tool] = float(r["bps"])
    paired = [tools["netcliff"] / max(v for t, v in tools.items() if t != "netcliff")
              for tools in rounds.values() if "netcliff" in tools and len(tools) > 1]
    if paired:
        ratios.append((key, paired))
print()
for key, paired in ratios:
    print(f"- {', '.join(map(str, key))} bytes: netcliff over the best peer of the same round: median "
          f"{statistics.median(paired):.3f} ({min(paired):.3f} to {max(paired):.3f}, {len(paired)} rounds)")
print(f"\n{left_out} measurements left out for steal above {STEAL:.0%}.")
