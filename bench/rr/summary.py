#!/usr/bin/env python3
"""summary.py rounds.csv: half round trips, medians with least and greatest, and netcliff's rate beside the best peer's."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "lib"))
from peers import Rounds, beside_best, spread  # noqa: E402

rounds = Rounds(sys.argv[1], "mean_us")
print("| transport | tool | half round trip, mean (us) | least | greatest | transactions/s | rounds |")
print("| --- | --- | --- | --- | --- | --- | --- |")
verdicts = []
for transport in sorted({row["transport"] for row in rounds.rows}):
    found = rounds.by_tool(transport=transport)
    for tool, by_round in sorted(found.items()):
        median, least, most = spread(row["figure"] for row in by_round.values())
        print(f"| {transport} | {tool} | {median:.2f} | {least:.2f} | {most:.2f} | {5e5 / median:.0f} | {len(by_round)} |")
    verdicts.append(f"- {transport}: rate of netcliff {beside_best(found, 'netcliff', lambda row: row['figure'], most=False)}")
print()
print("\n".join(verdicts))
print(rounds.footer())
