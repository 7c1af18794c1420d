"""Measures a sweep of 2000 points on one and on two Dask worker processes, the time that Dask's tasks add to the
computation, and the speed-up of one long point.

    python bench/python/cluster.py [ROUNDS]
"""

import os
import statistics
import sys
import time

import netcliff.dask
import psutil
from distributed import Client, LocalCluster
from netcliff._core import Plan
from netcliff.sweeps import plan

EXPERIMENT = """
title = "two thousand points"
engines = ["sim"]
schemes = ["ideal", "interrupt", "disable-enable", "napi:weight=64"]
packets = 100_000
[host]
preset = "pentium4-2530mhz"
[traffic]
rates = "1kpps..300kpps:500"
"""

#: One point of 1e9 packets.
LONG = """
title = "a long point"
engines = ["sim"]
schemes = ["napi-2007:period=20us,quota=3"]
precision = "0.02%"
packets = 1_000_000_000
[host]
preset = "pentium4-2530mhz"
[traffic]
rates = "110kpps"
"""


def cpu_s(client: Client) -> float:
    """CPU time (s) of the driver with its scheduler and nannies, plus that of the workers."""
    nannies = psutil.Process().children()
    beside = [process.cpu_times() for process in nannies]
    workers = client.run(time.process_time)
    ours = time.process_time()
    # Children of this process are the workers, whose CPU time is already in `workers`, and helper processes of
    # multiprocessing.
    helpers = [t for process, t in zip(nannies, beside) if process.pid not in set(client.run(os.getpid).values())]
    return ours + sum(workers.values()) + sum(t.user + t.system for t in helpers)


def alone(asked: Plan) -> float:
    """Time (s) that one thread of this process takes."""
    start = time.perf_counter()
    for _ in asked.compute(list(range(len(asked))), 1, "bench"):
        pass
    return time.perf_counter() - start


def clustered(asked: Plan, workers: int, long_s: float = netcliff.dask.LONG_S) -> tuple[float, float]:
    """Elapsed time and CPU time (s) with `workers` worker processes."""
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
    with cluster, Client(cluster) as client:
        netcliff.dask.check_versions(client)
        start, began = time.perf_counter(), cpu_s(client)
        netcliff.dask.gather(asked, client, long_s=long_s)
        return time.perf_counter() - start, cpu_s(client) - began


if __name__ == "__main__":
    asked = plan(EXPERIMENT)
    speed_up, overhead = [], []
    # The runs alternate, because the speed of the machine drifts. Each pair of cluster runs has a run without Dask
    # before and after it.
    before = alone(asked)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        (one, one_cpu), (two, two_cpu) = clustered(asked, 1), clustered(asked, 2)
        after = alone(asked)
        speed_up.append(one / two)
        overhead.append(one / ((before + after) / 2) - 1)
        print(
            f"no Dask, 1 thread: {before:.1f} s before, {after:.1f} s after; 1 worker: {one:.1f} s, {one_cpu:.1f} s of CPU; "
            f"2 workers: {two:.1f} s, {two_cpu:.1f} s of CPU; speed-up {speed_up[-1]:.2f}, tasks {overhead[-1]:+.1%} of the time",
            flush=True,
        )
        before = after
    # One point that uses all workers: its replications are distributed among them.
    asked, spread = plan(LONG), []
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        (one, _), (two, _) = clustered(asked, 1, 0.0), clustered(asked, 2, 0.0)
        spread.append(one / two)
        print(f"a long point: 1 worker {one:.1f} s, 2 workers {two:.1f} s, without Dask {alone(asked):.1f} s", flush=True)
    print(f"median speed-up of a long point: {statistics.median(spread):.2f}")
    print(f"medians: speed-up {statistics.median(speed_up):.2f}, overhead of tasks {statistics.median(overhead):.1%}")
