"""M/M/1/B and M/D/1/B by SimPy, Ciw, netcliff's simulator and netcliff's model. The outside simulators' 99 % intervals (t,
independent replications) should hold the model's values. `NETCLIFF=path/to/netcliff referee.py [REPLICATIONS PACKETS]`."""
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys

import scipy.stats

import queue_ciw
import queue_simpy

NETCLIFF = os.environ.get("NETCLIFF", "netcliff")
REPLICATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
PACKETS = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
SERVICE_S = 5.34e-6
CASES = [(rho, ring, fixed) for fixed in (False, True) for rho, ring in ((0.5, 4), (0.8, 8), (0.95, 16), (1.3, 8), (0.8, 1024))]


def netcliff(command, rho, ring, fixed, *more):
    service = "deterministic" if fixed else "exponential"
    done = subprocess.run(
        [NETCLIFF, command, "--host", "pentium4-2530mhz", "--scheme", "ideal", "--set", "protocol=5.34us", "--set",
         "per_byte=0s", "--set", f"ring={ring}", "--set",
         f"service={service}", "--rate", f"{rho / SERVICE_S:.9f}pps", "--json", *more],
        check=True, capture_output=True)
    outcome = json.loads(done.stdout)["outcome"]
    return outcome["loss_fraction"], outcome["latency_s"]["mean"]


def value(figure):
    return figure["value"] if isinstance(figure, dict) else figure


def interval(values):
    mean = statistics.fmean(values)
    half = scipy.stats.t.ppf(0.995, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return mean, half


def outside(module, case):
    rho, ring, fixed = case
    # Seeds of its own for each case and simulator, so that misses are independent.
    first = 1 + 1000 * (CASES.index(case) + 100 * (module is queue_ciw))
    runs = [module.run(rho, ring, fixed, PACKETS, first + n, PACKETS // 10) for n in range(REPLICATIONS)]
    return [interval([run[n] for run in runs]) for n in (0, 1)]


def row(case):
    rho, ring, fixed = case
    loss, latency = (value(figure) for figure in netcliff("predict", *case, "--fidelity", "exact"))
    exact = (1 - loss, latency / SERVICE_S)
    sim_loss, sim_latency = netcliff("simulate", *case, "--packets", "10000000", "--confidence", "99%")
    own = [
        (1 - sim_loss["value"], (sim_loss["high"] - sim_loss["low"]) / 2),
        (sim_latency["value"] / SERVICE_S, (sim_latency["high"] - sim_latency["low"]) / 2 / SERVICE_S),
    ]
    found = {"netcliff simulate": own, "SimPy": outside(queue_simpy, case), "Ciw": outside(queue_ciw, case)}
    cells, misses = [], []
    for number in (0, 1):
        cells.append(f"{exact[number]:.6f}")
        for name, figures in found.items():
            middle, half = figures[number]
            # Nothing lost in any run says only that loss is rare.
            hit = abs(middle - exact[number]) <= max(half, 1e-9 if number == 0 else 0)
            misses.append((name, hit))
            cells.append(f"{middle:.5f} ± {half:.5f}" + ("" if hit else " **outside**"))
    name = f"M/{'D' if fixed else 'M'}/1/{ring}, rho = {rho}"
    return f"| {name} | " + " | ".join(cells) + " |", misses


def main():
    with concurrent.futures.ProcessPoolExecutor(int(os.environ.get("WORKERS", "2"))) as pool:
        rows = list(pool.map(row, CASES))
    print(f"{REPLICATIONS} replications of {PACKETS} packets (SimPy, Ciw), 10 of 1e6 (netcliff); 99 % intervals")
    print("| queue | delivered: exact | netcliff | SimPy | Ciw | latency / service: exact | netcliff | SimPy | Ciw |")
    print("| --- " * 9 + "|")
    for text, _ in rows:
        print(text)
    all_misses = [miss for _, misses in rows for miss in misses]
    for name in ("netcliff simulate", "SimPy", "Ciw"):
        hits = [hit for who, hit in all_misses if who == name]
        limit = int(scipy.stats.binom.ppf(0.999, len(hits), 0.01))
        print(f"{name}: {len(hits) - sum(hits)} of {len(hits)} outside their 99 % interval (up to {limit} would be chance)")


main()
