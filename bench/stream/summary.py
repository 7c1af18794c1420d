#!/usr/bin/env python3
"""summary.py rounds.csv: goodput and CPU time a byte, medians with least and greatest, and netcliff beside the best peer."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "lib"))
from peers import Rounds, beside_best, spread  # noqa: E402


def us_per_kib(row):
    """Both CPUs' busy time by /proc/stat over the time it took to bring a KiB (us)."""
    return float(row["busy_cpus"]) * 1e6 / (row["figure"] / 8 / 1024)


def unseen(rows):
    """CPUs that were busy and that the tool's own figure does not have."""
    told = [float(row["busy_cpus"]) - float(row["own_cpus"]) for row in rows if row["own_cpus"] not in ("", "-", "null")]
    return f"{spread(told)[0]:+.2f}" if told else "-"


rounds = Rounds(sys.argv[1], "bps")
print("| offloads | congestion | block | tool | median Gbit/s | least | greatest | rounds | us/KiB | busy CPUs not in its own figure |")
print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
keys = sorted({(r["offloads"], r["congestion"], int(r["block_bytes"])) for r in rounds.rows})
verdicts = []
for offloads, congestion, block in keys:
    found = rounds.by_tool(offloads=offloads, congestion=congestion, block_bytes=str(block))
    for tool, by_round in sorted(found.items()):
        median, least, most = spread(row["figure"] / 1e9 for row in by_round.values())
        cost = spread(map(us_per_kib, by_round.values()))[0]
        print(f"| {offloads} | {congestion} | {block} | {tool} | {median:.2f} | {least:.2f} | {most:.2f} | {len(by_round)} | "
              f"{cost:.3f} | {unseen(by_round.values())} |")
    name = f"offloads {offloads}, {congestion}, {block} bytes"
    for own in sorted(tool for tool in found if tool.startswith("netcliff")):
        goodput = beside_best(found, own, lambda row: row["figure"])
        cost = beside_best(found, own, us_per_kib, most=False)
        verdicts.append(f"- {name}: {own}: goodput {goodput}; bytes a CPU second {cost}")
print()
print("\n".join(verdicts))
print(rounds.footer())
