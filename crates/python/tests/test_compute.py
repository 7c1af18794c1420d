"""Arrays, threads, forks, Ctrl-C, memory."""

from __future__ import annotations

import concurrent.futures
import contextlib
import doctest
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Callable

import netcliff
import numpy as np
import psutil
import pytest


def test_arrays_broadcast_and_equal_single_points() -> None:
    loads, costs = np.linspace(20e3, 200e3, 5)[:, None], np.array([1e-6, 2e-6, 3e-6])
    curve = netcliff.predict("napi", rate_pps=loads, application_s=costs)
    assert curve["throughput_pps"].shape == (5, 3)
    for at in np.ndindex(5, 3):
        one = netcliff.predict("napi", rate_pps=float(loads[at[0], 0]), application_s=float(costs[at[1]]))
        assert {key: curve[key][at] for key in curve if curve[key][at] == curve[key][at]} == one.figures


def test_dimensions_are_named_by_what_varies_along_them() -> None:
    loads, costs = np.linspace(20e3, 200e3, 5), np.array([1e-6, 2e-6, 3e-6])
    data = netcliff.predict("napi", rate_pps=loads[:, None], application_s=costs).to_xarray()
    assert data.throughput_pps.dims == ("rate_pps", "application_s")
    assert float(data.throughput_pps.sel(rate_pps=20e3, application_s=2e-6)) > 19e3
    paired = netcliff.predict("napi", rate_pps=loads, application_s=np.linspace(1e-6, 2e-6, 5)).to_xarray()
    assert paired.throughput_pps.dims == ("axis_0",) and set(paired.coords) == {"rate_pps", "application_s"}
    one = netcliff.predict("napi", rate_pps=[1e3], application_s=costs[:, None]).to_xarray()
    assert one.throughput_pps.dims == ("application_s", "rate_pps")


def test_an_empty_array_gives_empty_figures_and_masked_points_none() -> None:
    empty = netcliff.predict("napi", rate_pps=[])
    assert empty["throughput_pps"].shape == empty.shape == (0,) and empty.to_xarray().throughput_pps.shape == (0,)
    masked = netcliff.predict("napi", rate_pps=np.ma.masked_array([50e3, -1.0, 100e3], mask=[False, True, False]))
    alone = netcliff.predict("napi", rate_pps=[50e3, 100e3])
    found = masked["throughput_pps"]
    assert np.isnan(found[1]) and (found[[0, 2]] == alone["throughput_pps"]).all()
    assert {at for at, _ in masked.notes} <= {0, 2} and masked.to_xarray().throughput_pps.isnull().sum() == 1


def test_a_simulated_curve_has_intervals_as_variables() -> None:
    curve = netcliff.simulate("interrupt", rate_pps=[50e3, 100e3], packets=5000)
    data = curve.to_xarray()
    assert data.throughput_pps.attrs["units"] == "1/s" and data.rate_pps.attrs["units"] == "1/s"
    assert (data.throughput_pps_low <= data.throughput_pps).all()
    assert "<svg" in curve._repr_html_()


def test_the_cliff_and_what_moves_it() -> None:
    assert netcliff.sensitivities("interrupt")["cliff_pps"] == netcliff.cliff("interrupt")
    assert netcliff.cliff("interrupt", protocol="10us") < netcliff.cliff("interrupt")


def test_advice() -> None:
    schemes = ["interrupt", "napi:weight=64"]
    found = netcliff.advise(rate="60kpps", schemes=schemes, packets_each=2000, packets_at_most=400_000)
    assert {candidate["scheme"] for candidate in found["candidates"]} >= set(found["advised"])


def test_threads_share_the_module() -> None:
    def one(seed: int) -> str:
        record = netcliff.simulate("napi", rate="100kpps", packets=5000, seed=seed, threads=1)
        return str(record.outcome)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(one, list(range(8)) * 2))
    assert found[:8] == found[8:] and len(set(found)) == 8


def test_a_forked_child_computes() -> None:
    before = netcliff.simulate("napi", rate="100kpps", packets=5000).outcome
    child = os.fork()
    if child == 0:
        same = netcliff.simulate("napi", rate="100kpps", packets=5000).outcome == before
        os._exit(0 if same else 1)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the forked child hangs")


def simulated(asked: tuple[netcliff.Scheme, netcliff.Host, netcliff.Traffic, int]) -> netcliff.Record:
    """A worker's work: arguments and answer are pickled."""
    scheme, host, traffic, seed = asked
    return netcliff.simulate(scheme, host=host, traffic=traffic, packets=2000, seed=seed, threads=1)


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_processes_of_any_start_method_give_the_same_digits(method: str) -> None:
    host = netcliff.Host(application="2us")
    asked = [(netcliff.Scheme("napi"), host, netcliff.Traffic(rate_pps=1e4 * n), n) for n in range(1, 7)]
    here = [simulated(each).outcome for each in asked]
    # With threads of the simulator under way in the parent.
    beside = threading.Thread(target=netcliff.simulate, args=("napi",), kwargs={"rate": "100kpps", "packets": 300_000})
    beside.start()
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map_async(simulated, asked, chunksize=1).get(timeout=60)
    beside.join()
    assert [record.outcome for record in found] == here


def test_ctrl_c_ends_a_long_computation() -> None:
    code = (
        "import netcliff\nprint('on', flush=True)\n"
        "try:\n netcliff.simulate('napi', rate='100kpps', packets=10**10)\n"
        "except KeyboardInterrupt:\n print('stopped', flush=True)\n import os; os._exit(0)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "on\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=10)[0] == "stopped\n"


def values() -> None:
    netcliff.Host(application_s=2e-6).replace(ring=32)
    netcliff.Traffic(rate_pps=1e5)


def refusals() -> None:
    for wrong in (lambda: netcliff.Scheme("napi:wait=3"), lambda: netcliff.Traffic(rate_pps=-1.0)):
        with contextlib.suppress(netcliff.UsageError):
            wrong()


def a_point() -> None:
    netcliff.predict("interrupt", rate="100kpps", fidelity="paper")


def a_simulation() -> None:
    netcliff.simulate("interrupt", rate="100kpps", packets=1000, threads=1)


def an_array() -> None:
    netcliff.predict("interrupt", rate_pps=[1e5, 1.1e5], fidelity="paper")


#: Calls of each, 1e5 together; bench/python/leaks.py makes 1e5 of each.
MANY = {values: 45_000, refusals: 45_000, a_point: 8_000, a_simulation: 500, an_array: 1_700}


@pytest.mark.parametrize("call", MANY, ids=lambda call: call.__name__)
def test_nothing_leaks_over_many_calls(call: Callable[[], None]) -> None:
    # Threads that come and go make a few MiB of what is resident come and go: the halves' peaks are compared.
    resident: list[int] = []
    for _ in range(10):
        for _ in range(MANY[call] // 10):
            call()
        resident.append(psutil.Process().memory_info().rss)
    assert max(resident[5:]) - max(resident[:5]) < 4 << 20, resident


def test_threads_end_with_their_calls() -> None:
    before = psutil.Process().num_threads()
    for _ in range(200):
        netcliff.predict("interrupt", rate="100kpps")
    time.sleep(0.2)
    assert psutil.Process().num_threads() <= before + 2


@pytest.mark.parametrize("name", ["netcliff", "netcliff.compute", "netcliff.results"])
def test_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    found = doctest.testmod(module, extraglobs={"netcliff": netcliff})
    assert found.attempted and not found.failed


@pytest.mark.parametrize("value", [netcliff.Host, netcliff.Scheme, netcliff.Traffic])
def test_docstrings_of_values_run(value: type) -> None:
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    tests = [test for test in finder.find(value, globs=vars(netcliff).copy()) if test.examples]
    assert tests and not sum(runner.run(test).failed for test in tests)


def test_import_brings_neither_xarray_nor_dask() -> None:
    code = "import sys, netcliff; print([m for m in ('xarray', 'dask', 'distributed', 'pandas') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
