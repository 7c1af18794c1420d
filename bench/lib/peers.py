#!/usr/bin/env python3
"""peers.py stream|udp|rr|cpu TABLE: summarises a table of bench/stream/run.sh, bench/stream/udp.sh, bench/rr/run.sh or
bench/stream/cpu.sh as Markdown: medians with minimum and maximum, and netcliff against the best peer.

Rules: a measurement is left out if the hypervisor took more than 2 % of the machine's CPU time during it, or if other
programs used more than 0.1 CPU just before it (where the bench records this). The summary states both numbers. The best
peer is the peer with the best median over all rounds. Only peers with at least half as many rounds as the peer with the
most rounds count, because one lucky round is no median. To take the best peer of each round instead would select after
the noise was seen."""
import csv
import math
import statistics
import sys

STEAL = 0.02
BUSY_BEFORE_CPUS = 0.1


class Rounds:
    """The measurements of a CSV file that are not left out, and the numbers of those that are."""

    def __init__(self, path, figure):
        self.rows, self.left_out, self.beside, self.silent = [], 0, 0, 0
        for row in csv.DictReader(open(path, encoding="utf-8")):
            if row[figure] in ("", "-", "null") or float(row[figure]) == 0:
                self.silent += 1
            elif float(row["steal_share"]) > STEAL:
                self.left_out += 1
            elif float(row.get("busy_before") or 0) > BUSY_BEFORE_CPUS:
                self.beside += 1
            else:
                self.rows.append(row | {"figure": float(row[figure])})

    def by_tool(self, **where):
        """{tool: {round: row}} of the rows that have the values in `where`."""
        found = {}
        for row in self.rows:
            if all(row[key] == value for key, value in where.items()):
                found.setdefault(row["tool"], {})[row["round"]] = row
        return found

    def footer(self):
        return (f"\n{self.left_out} measurements left out for steal above {STEAL:.0%}, "
                f"{self.beside} for more than {BUSY_BEFORE_CPUS} CPUs busy just before; "
                f"{self.silent} without a figure (the tool gave none).")


def spread(values):
    """Median, minimum and maximum."""
    values = list(values)
    return statistics.median(values), min(values), max(values)


def interval_of_median(values, confidence=0.95):
    """An interval that contains the median with at least this confidence, for any distribution. Its ends are two of the
    ordered values, chosen by the binomial distribution of n and 1/2. None for fewer than 6 values."""
    ordered = sorted(values)
    n = len(ordered)
    inside = [k for k in range(n // 2) if 2 * sum(math.comb(n, i) for i in range(k + 1)) <= (1 - confidence) * 2**n]
    return (ordered[inside[-1]], ordered[n - 1 - inside[-1]]) if inside else None


def against_best(found, own, figure, most=True):
    """A sentence that compares `own` with the best peer, round by round (above 1: `own` is better); None if there is
    nothing to compare. `found` comes from Rounds.by_tool, `figure` computes the figure of a row, and `most` says
    whether more is better."""
    peers = {tool: rounds for tool, rounds in found.items() if not tool.startswith("netcliff")}
    most_rounds = max(map(len, peers.values()), default=0)
    peers = {tool: rounds for tool, rounds in peers.items() if 2 * len(rounds) >= most_rounds}
    if own not in found or not peers:
        return None
    median = {tool: statistics.median(figure(row) for row in rounds.values()) for tool, rounds in peers.items()}
    best = (max if most else min)(median, key=median.get)
    paired = [figure(row) / figure(peers[best][n]) for n, row in found[own].items() if n in peers[best]]
    if not paired:
        return None
    ratios = spread(paired if most else [1 / ratio for ratio in paired])
    ends = interval_of_median(paired if most else [1 / ratio for ratio in paired])
    known = f"; median 95 %: {ends[0]:.3f} to {ends[1]:.3f}" if ends else ""
    return f"{ratios[0]:.3f} ({ratios[1]:.3f} to {ratios[2]:.3f}, {len(paired)} rounds{known}) of {best}, the best peer"


def stream(table):
    """Prints goodput and CPU time per KiB, and compares netcliff with the best peer."""
    rounds = Rounds(table, "bps")
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
            goodput = against_best(found, own, lambda row: row["figure"])
            cost = against_best(found, own, us_per_kib, most=False)
            verdicts.append(f"- {name}: {own}: goodput {goodput}; bytes a CPU second {cost}")
    print()
    print("\n".join(verdicts))
    print(rounds.footer())


def us_per_kib(row):
    """Busy time of both CPUs, by /proc/stat, per KiB transferred (us)."""
    return float(row["busy_cpus"]) * 1e6 / (row["figure"] / 8 / 1024)


def unseen(rows):
    """Median of the busy CPUs that the tool's own CPU figure does not contain."""
    more = [float(row["busy_cpus"]) - float(row["own_cpus"]) for row in rows if row["own_cpus"] not in ("", "-", "null")]
    return f"{spread(more)[0]:+.2f}" if more else "-"


def udp(table):
    """Prints datagrams received per second, and compares each method of netcliff with the best peer."""
    rounds = Rounds(table, "received_pps")
    found = rounds.by_tool()
    print("| tool | received kpps, median | least | greatest | rounds |")
    print("| --- | --- | --- | --- | --- |")
    for tool, by_round in sorted(found.items()):
        median, least, most = spread(row["figure"] / 1e3 for row in by_round.values())
        print(f"| {tool} | {median:.0f} | {least:.0f} | {most:.0f} | {len(by_round)} |")
    print()
    for own in sorted(tool for tool in found if tool.startswith("netcliff")):
        print(f"- {own}: {against_best(found, own, lambda row: row['figure'])}")
    print(rounds.footer())


def rr(table):
    """Prints half round-trip times, and compares netcliff's transaction rate with that of the best peer."""
    rounds = Rounds(table, "mean_us")
    print("| transport | tool | half round trip, mean (us) | least | greatest | transactions/s | rounds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    verdicts = []
    for transport in sorted({row["transport"] for row in rounds.rows}):
        found = rounds.by_tool(transport=transport)
        for tool, by_round in sorted(found.items()):
            median, least, most = spread(row["figure"] for row in by_round.values())
            print(f"| {transport} | {tool} | {median:.2f} | {least:.2f} | {most:.2f} | {5e5 / median:.0f} | {len(by_round)} |")
        verdicts.append(f"- {transport}: rate of netcliff {against_best(found, 'netcliff', lambda row: row['figure'], most=False)}")
    print()
    print("\n".join(verdicts))
    print(rounds.footer())


def cpu(table):
    """Prints busy and softirq shares of each CPU by ticks and by eBPF, and the goodput with the eBPF meter relative to
    the goodput without it."""
    rows = [row for row in csv.DictReader(open(table, encoding="utf-8")) if float(row["steal_share"]) <= STEAL]
    loads = list(dict.fromkeys(row["load"] for row in rows))
    exact = [row for row in rows if row["meter"] == "ebpf" and row["ebpf_busy"] != "-"]
    print("| load | CPU | busy by /proc/stat, % | busy by eBPF, % | difference, points | softirq by ticks, % | softirq by eBPF, % | meter, % | rounds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for load in loads:
        for number in sorted({row["cpu"] for row in exact}):
            found = [row for row in exact if row["load"] == load and row["cpu"] == number]
            if found:
                columns = [percent(found, lambda row, name=name: float(row[name]))
                           for name in ("proc_stat_busy", "ebpf_busy")]
                columns.append(percent(found, lambda row: float(row["proc_stat_busy"]) - float(row["ebpf_busy"])))
                columns += [percent(found, lambda row, name=name: float(row[name]))
                            for name in ("proc_stat_softirq", "ebpf_softirq", "meter_overhead")]
                print(f"| {load} | {number} | {' | '.join(columns)} | {len(found)} |")
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


def percent(found, figure):
    """Median, minimum and maximum of shares, in percent."""
    return "{:.1f} ({:.1f} to {:.1f})".format(*(100 * value for value in spread(figure(row) for row in found)))


if __name__ == "__main__":
    {"stream": stream, "udp": udp, "rr": rr, "cpu": cpu}[sys.argv[1]](sys.argv[2])
