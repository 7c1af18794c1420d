"""A sweep of 2000 points on one and on two worker processes, and what Dask's tasks cost beside the computing.

    python bench/python/cluster.py
"""

import time

import netcliff.dask
from distributed import Client, LocalCluster
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

if __name__ == "__main__":
    asked = plan(EXPERIMENT)
    start = time.perf_counter()
    for _ in asked.compute(list(range(len(asked))), 1, "bench"):
        pass
    alone = time.perf_counter() - start
    print(f"no Dask, 1 thread: {alone:.1f} s")
    took = {}
    for workers in (1, 2):
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
        with cluster, Client(cluster) as client:
            netcliff.dask.check_versions(client)
            start = time.perf_counter()
            netcliff.dask.gather(asked, client)
            took[workers] = time.perf_counter() - start
            print(f"{workers} workers: {took[workers]:.1f} s")
    print(f"speed-up {took[1] / took[2]:.2f}; overhead of tasks {took[1] / alone - 1:.1%}")
