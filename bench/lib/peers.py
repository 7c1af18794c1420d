"""What the summaries of the benches beside other tools share: which measurements count, and ratios round by round.

Rule: a measurement that lost more than 2 % of the machine to the hypervisor is left out, and so is one before which more than a
tenth of a CPU was busy with something else (where the bench notes it); both are said. The best peer is the one with
the best median over all rounds, of those with at least half as many rounds as any: the best of each round would be a choice made
after the noise was seen, and one lucky round is no median."""
import csv
import math
import statistics

STEAL = 0.02
BUSY_BEFORE_CPUS = 0.1


class Rounds:
    """The measurements of a CSV file, those that count."""

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
        """{tool: {round: row}} of the rows with these values."""
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
    """Median, least and greatest."""
    values = list(values)
    return statistics.median(values), min(values), max(values)


def interval_of_median(values, confidence=0.95):
    """Where the median lies with at least this confidence, whatever the distribution: two of the ordered values, as many from
    either end as the binomial of n and 1/2 allows. None for fewer than 6 values."""
    ordered = sorted(values)
    n = len(ordered)
    inside = [k for k in range(n // 2) if 2 * sum(math.comb(n, i) for i in range(k + 1)) <= (1 - confidence) * 2**n]
    return (ordered[inside[-1]], ordered[n - 1 - inside[-1]]) if inside else None


def beside_best(found, own, figure, most=True):
    """A sentence: how `own` does beside the best peer, round by round; None where there is nothing to compare. `found`: as of
    Rounds.by_tool; `figure`: of a row; `most`: more is better."""
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
