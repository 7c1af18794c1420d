#!/usr/bin/env python3
"""udp.py udp.csv: datagrams received a second, medians with least and greatest, and each way of netcliff beside the best peer."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "lib"))
from peers import Rounds, beside_best, spread  # noqa: E402

rounds = Rounds(sys.argv[1], "received_pps")
found = rounds.by_tool()
print("| tool | received kpps, median | least | greatest | rounds |")
print("| --- | --- | --- | --- | --- |")
for tool, by_round in sorted(found.items()):
    median, least, most = spread(row["figure"] / 1e3 for row in by_round.values())
    print(f"| {tool} | {median:.0f} | {least:.0f} | {most:.0f} | {len(by_round)} |")
print()
for own in sorted(tool for tool in found if tool.startswith("netcliff")):
    print(f"- {own}: {beside_best(found, own, lambda row: row['figure'])}")
print(rounds.footer())
