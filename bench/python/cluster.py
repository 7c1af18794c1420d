"""A sweep of 2000 points on one and on two worker processes, and what Dask's tasks cost beside the computing.

    python bench/python/cluster.py
"""

import os
import time

import netcliff.dask
import psutil
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

def cpu_s(client: Client) -> float:
    """CPU time (s) of the driver with scheduler and nannies, and of the workers."""
    nannies = psutil.Process().children()
    beside = [process.cpu_times() for process in nannies]
    workers = client.run(time.process_time)
    ours = time.process_time()
    # Children of this process are the workers, which have told their own, and helpers of multiprocessing.
    helpers = [t for process, t in zip(nannies, beside) if process.pid not in set(client.run(os.getpid).values())]
    return ours + sum(workers.values()) + sum(t.user + t.system for t in helpers)


if __name__ == "__main__":
    asked = plan(EXPERIMENT)
    start, began = time.perf_counter(), time.process_time()
    for _ in asked.compute(list(range(len(asked))), 1, "bench"):
        pass
    alone, alone_cpu = time.perf_counter() - start, time.process_time() - began
    print(f"no Dask, 1 thread: {alone:.1f} s, {alone_cpu:.1f} s of CPU", flush=True)
    took, cpu = {}, {}
    for workers in (1, 2):
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
        with cluster, Client(cluster) as client:
            netcliff.dask.check_versions(client)
            start, began = time.perf_counter(), cpu_s(client)
            netcliff.dask.gather(asked, client)
            took[workers], cpu[workers] = time.perf_counter() - start, cpu_s(client) - began
            print(f"{workers} workers: {took[workers]:.1f} s, {cpu[workers]:.1f} s of CPU", flush=True)
    print(f"speed-up {took[1] / took[2]:.2f}; overhead of tasks {took[1] / alone - 1:.1%} of the time, {cpu[1] / alone_cpu - 1:.1%} of the CPU")
