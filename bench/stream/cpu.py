#!/usr/bin/env python3
"""cpu.py cpu.csv: busy and softirq shares of each CPU by ticks and by eBPF, and the price of the eBPF meter."""
import csv
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "lib"))
from peers import STEAL, spread  # noqa: E402

rows = [row for row in csv.DictReader(open(sys.argv[1], encoding="utf-8")) if float(row["steal_share"]) <= STEAL]
loads = list(dict.fromkeys(row["load"] for row in rows))
exact = [row for row in rows if row["meter"] == "ebpf" and row["ebpf_busy"] != "-"]


def percent(found, figure):
    """Median, least and greatest of shares, in percent."""
    return "{:.1f} ({:.1f} to {:.1f})".format(*(100 * value for value in spread(figure(row) for row in found)))


print("| load | CPU | busy by /proc/stat, % | busy by eBPF, % | difference, points | softirq by ticks, % | softirq by eBPF, % | meter, % | rounds |")
print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
for load in loads:
    for cpu in sorted({row["cpu"] for row in exact}):
        found = [row for row in exact if row["load"] == load and row["cpu"] == cpu]
        if found:
            columns = [percent(found, lambda row, name=name: float(row[name]))
                       for name in ("proc_stat_busy", "ebpf_busy")]
            columns.append(percent(found, lambda row: float(row["proc_stat_busy"]) - float(row["ebpf_busy"])))
            columns += [percent(found, lambda row, name=name: float(row[name]))
                        for name in ("proc_stat_softirq", "ebpf_softirq", "meter_overhead")]
            print(f"| {load} | {cpu} | {' | '.join(columns)} | {len(found)} |")
print()
for load in loads:
    pairs = {}
    for row in rows:
        if row["load"] == load:
            pairs.setdefault(row["round"], {})[row["meter"]] = float(row["goodput_bps"])
    ratios = [pair["ebpf"] / pair["procfs"] for pair in pairs.values() if len(pair) == 2]
    if ratios:
        print("- {}: goodput with the eBPF meter over without: {:.3f} ({:.3f} to {:.3f}, {} rounds)".format(
            load, *spread(ratios), len(ratios)))
