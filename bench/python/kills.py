"""Kills a worker, and in other runs the driver, with SIGKILL at random points of a sweep, TIMES times each (default 5),
and checks that the sweep still returns the same Dataset as without the kill.

    python bench/python/kills.py [TIMES [SEED]]
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import netcliff
import netcliff.dask
import xarray as xr
from distributed import Client, LocalCluster

EXPERIMENT = """
title = "killed"
engines = ["model", "sim"]
schemes = ["interrupt", "napi:weight=64", "disable-enable"]
packets = 300_000
[host]
preset = "pentium4-2530mhz"
vary = ["application=1us,2us"]
[traffic]
rates = "10kpps..80kpps:12"
"""


def cluster() -> LocalCluster:
    return LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)


def killed_worker(whole: xr.Dataset, at: int) -> None:
    """Kills one of two workers after `at` answers."""
    with cluster() as workers, Client(workers) as client:
        pids = client.run(os.getpid)
        killed = []

        def kill(answered: int, of: int) -> None:
            if answered >= at and not killed:
                killed.append(random.choice(list(pids.values())))
                os.kill(killed[0], signal.SIGKILL)

        found = netcliff.dask.sweep(EXPERIMENT, client, task_s=0.05, progress=kill)
        assert killed
    print(f"worker killed after {at} answers: {'the same Dataset' if whole.identical(found) else 'DIFFERS'}", flush=True)


def killed_driver(whole: xr.Dataset, at: int) -> None:
    """Kills the driver and its workers once `at` records are stored. Another driver then resumes the sweep."""
    with tempfile.TemporaryDirectory() as place:
        file, store = Path(place) / "killed.toml", Path(place) / "records.db"
        file.write_text(EXPERIMENT)
        run = [sys.executable, "-m", "netcliff", "run", str(file), "--local", "2", "--store", str(store)]
        driver = subprocess.Popen(run, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            while kept(store) < at and driver.poll() is None:
                time.sleep(0.02)
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
        had = kept(store)
        with cluster() as workers, Client(workers) as client:
            found = netcliff.dask.sweep(file, client, store=store, resume=True)
        runs = len(netcliff.Store(store).runs())
        same = whole.identical(found) and runs == 1
        print(f"driver killed with {had} records kept: {'the same Dataset' if same else 'DIFFERS'}", flush=True)


def kept(store: Path) -> int:
    try:
        return int(netcliff.Store(store).runs()[0]["records"])
    except (netcliff.StoreError, IndexError):
        return 0


if __name__ == "__main__":
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    random.seed(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    whole = netcliff.sweep(EXPERIMENT, threads=1)
    points = len(netcliff.sweeps.plan(EXPERIMENT))
    print(f"{points} points, undisturbed on one core", flush=True)
    for kill in (killed_worker, killed_driver):
        for _ in range(times):
            kill(whole, random.randrange(points // 10, points * 8 // 10))
