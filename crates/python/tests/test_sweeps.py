"""Sweeps here and on a cluster: the same digits, whatever dies."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import netcliff
import netcliff.__main__
import netcliff.dask
import netcliff.sweeps
import psutil
import pytest
import xarray as xr
from conftest import ANSWERED, EXPERIMENT, POINTS
from distributed import Client, LocalCluster
from netcliff.sweeps import plan


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        with Client(cluster) as client:
            yield client


@pytest.fixture
def here(experiment: Path) -> xr.Dataset:
    return netcliff.sweep(experiment, threads=1)


def test_a_dataset_has_dimensions_units_and_provenance(here: xr.Dataset) -> None:
    assert dict(here.sizes) == {"engine": 2, "scheme": 4, "host_application": 2, "rate": 4}
    assert here.rate.attrs["units"] == "1/s" and here.host_application.attrs["units"] == "s"
    assert here.latency_mean_s.attrs["units"] == "s"
    assert here.attrs["netcliff_version"] == netcliff.__version__ and here.attrs["packets"] == "5000"
    simulated = here.sel(engine="sim")
    # Figures whose replications are too short have no interval.
    low = simulated.throughput_pps_low
    assert bool(low.notnull().any()) and bool(((low <= simulated.throughput_pps) | low.isnull()).all())
    assert not here.to_dataframe().empty


def test_points_without_an_answer_are_listed_by_task(experiment: Path, here: xr.Dataset) -> None:
    missing = here.attrs["missing"]
    assert len(missing) == POINTS - ANSWERED and all("threaded=true" in each and ", model (" in each for each in missing)
    asked = plan(experiment)
    late = netcliff.sweeps.collect(
        asked, lambda pending: reversed(list(asked.compute(pending, 1, "test"))), None, False, False, "test"
    )
    xr.testing.assert_identical(here, late.to_xarray())


def test_costs_that_are_texts_tell_points_apart() -> None:
    data = netcliff.sweep("receive-starvation", packets=1000)
    assert dict(data.sizes) == {"host_transmit_load": 3, "rate": 15}
    assert list(data.host_transmit_load.values) == ["50kpps", "150kpps", "240kpps"]
    assert "units" not in data.host_transmit_load.attrs
    most = data.throughput_pps.max("rate").values
    assert most[0] > most[1] > most[2]


def test_what_needs_real_packets_is_refused(experiment: Path) -> None:
    text = experiment.read_text().replace('"sim"]', '"wire"]')
    with pytest.raises(netcliff.UnsupportedError, match="engine wire .* netcliff run"):
        netcliff.sweep(text)
    assert len(plan(text, engines=["model"])) == POINTS / 2


def test_threads_do_not_change_a_digit(experiment: Path, here: xr.Dataset) -> None:
    xr.testing.assert_identical(here, netcliff.sweep(experiment, threads=4))


def test_the_program_has_the_same_records(binary: str, experiment: Path, tmp_path: Path) -> None:
    store = tmp_path / "theirs.db"
    subprocess.run([binary, "run", str(experiment), "--json", "--db", str(store)], capture_output=True, check=True)
    netcliff.sweep(experiment, store=tmp_path / "ours.db")
    key = lambda record: record.provenance["settings"]["task"]  # noqa: E731
    theirs, ours = (
        {key(record): record.outcome for record in netcliff.Store(tmp_path / name).records()}
        for name in ("theirs.db", "ours.db")
    )
    assert theirs == ours and len(ours) == ANSWERED


def test_two_workers_give_the_same_digits(client: Client, experiment: Path, here: xr.Dataset) -> None:
    xr.testing.assert_identical(here, netcliff.dask.sweep(experiment, client, task_s=1e-3))


def test_a_killed_worker_changes_nothing(client: Client, experiment: Path, here: xr.Dataset) -> None:
    killed: list[int] = []

    def kill(answered: int, of: int) -> None:
        if answered >= 5 and not killed:
            pid = next(iter(client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    found = netcliff.dask.sweep(experiment, client, task_s=1e-3, progress=kill)
    assert killed
    xr.testing.assert_identical(here, found)


#: Few points, of which each takes some 30 orders of a tenth of a second.
PRECISE = """
title = "a few points to 0.3 %"
engines = ["sim"]
schemes = ["napi", "polling:period=20us,quota=3"]
precision = "0.3%"
packets = 30_000_000
[host]
preset = "pentium4-2530mhz"
[traffic]
rates = "100kpps,140kpps"
"""


@pytest.fixture(scope="module")
def precise() -> xr.Dataset:
    return netcliff.sweep(PRECISE)


def test_long_points_travel_by_replications(client: Client, experiment: Path, here: xr.Dataset, precise: xr.Dataset) -> None:
    # None is waited for whole: each is decided here, and the workers have its replications.
    xr.testing.assert_identical(here, netcliff.dask.sweep(experiment, client, long_s=0.0))
    # The first are begun on workers, which give them up.
    xr.testing.assert_identical(precise, netcliff.dask.sweep(PRECISE, client, long_s=0.3))


def test_a_worker_gives_up_a_long_point_and_goes_on(experiment: Path) -> None:
    asked = plan(experiment)
    found = netcliff.dask.answer(pickle.dumps(asked), list(range(len(asked))), netcliff.__version__, 0.0)
    states = {state: {asked.task(task)["engine"] for task, told, _ in found if told == state} for _, state, _ in found}
    assert states["long"] == {"sim"} and "sim" not in states["done"]
    assert [task for task, _, _ in found] == list(range(len(asked)))


def test_a_worker_killed_amid_replications_changes_nothing(client: Client, precise: xr.Dataset) -> None:
    pid = next(iter(client.run(os.getpid).values()))
    killer = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))
    killer.start()
    found = netcliff.dask.sweep(PRECISE, client, long_s=0.0)
    # The worker was still at it.
    assert killer.finished.is_set() and not psutil.pid_exists(pid)
    xr.testing.assert_identical(precise, found)


def test_replications_that_cannot_be_had_fail_their_point_by_name(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: netcliff.dask.Spread, task: int, orders: list[bytes]) -> list[bytes]:
        if task == 1:
            raise RuntimeError("no room")
        return fetch(self, task, orders)[1 if task == 2 else 0 :]

    fetch = netcliff.dask.Spread._fetch
    monkeypatch.setattr(netcliff.dask.Spread, "_fetch", broken)
    found = netcliff.dask.gather(PRECISE, client, long_s=0.0)
    assert sorted(found.texts) == [0, 3]
    (_, _, first), (_, _, second) = found.missing
    assert "no room" in first and first.startswith("point 1 (")
    assert "what came back does not fill the order" in second


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an experiment, long.toml, and the store of a driver that was killed in the middle of it."""
    place = tmp_path_factory.mktemp("killed")
    # Long enough to be killed in the middle; its process group ends whole.
    # Below every cliff: past it, replications are made up to 64 times as long.
    text = EXPERIMENT.replace("packets = 5000", "packets = 1_000_000").replace("200kpps:4", "80kpps:4")
    (place / "long.toml").write_text(text)
    store = place / "records.db"
    command = [sys.executable, "-m", "netcliff", "run", str(place / "long.toml"), "--local", "2", "--store", str(store)]
    driver = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + 40
        while _kept(store) < 5 and time.monotonic() < deadline and driver.poll() is None:
            time.sleep(0.05)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert 5 <= _kept(store) < ANSWERED
    return place


def test_a_killed_driver_resumes(killed: Path, tmp_path: Path) -> None:
    place = shutil.copytree(killed, tmp_path / "ours")
    store, long = place / "records.db", place / "long.toml"
    had = _kept(store)
    answered: list[int] = []
    found = netcliff.sweep(long, store=store, resume=True, progress=lambda done, of: answered.append(done))
    assert len(answered) == POINTS - had and len(netcliff.Store(store).runs()) == 1
    assert netcliff.Store(store).runs()[0]["state"] == "done"
    xr.testing.assert_identical(found, netcliff.sweep(killed / "long.toml"))


def test_the_program_goes_on_where_a_driver_was_killed(binary: str, killed: Path, tmp_path: Path) -> None:
    store = shutil.copytree(killed, tmp_path / "theirs") / "records.db"
    had = _kept(store)
    command = [binary, "run", str(killed / "long.toml"), "--resume", "--json", "--db", str(store)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"run 1 goes on after {had} of {POINTS} points" in said.stderr
    run, = netcliff.Store(store).runs()
    assert (run["state"], run["records"], run["name"]) == ("done", ANSWERED, "long")


def _kept(store: Path) -> int:
    try:
        return int(netcliff.Store(store).runs()[0]["records"])
    except (netcliff.StoreError, IndexError):
        return 0


def test_another_version_is_refused_by_name(client: Client, experiment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netcliff._core, "__version__", "9.9.9")
    with pytest.raises(netcliff.dask.VersionError, match="9.9.9, but tcp://.* has"):
        netcliff.dask.sweep(experiment, client)


def test_a_worker_that_comes_later_with_another_version_is_refused(
    client: Client, experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netcliff.dask, "check_versions", lambda client: None)
    ours = netcliff.__version__

    def call_yourself(version: str) -> None:
        sys.modules["netcliff._core"].__version__ = version  # type: ignore[attr-defined]

    client.run(call_yourself, "0.0.1")
    kept: list[int] = []
    try:
        with pytest.raises(netcliff.dask.VersionError, match=f"this worker has netcliff 0.0.1, the driver {ours}"):
            netcliff.dask.sweep(experiment, client, progress=lambda done, of: kept.append(done))
    finally:
        client.run(call_yourself, ours)
    assert not kept


def test_a_task_that_fails_names_its_point_and_the_rest_goes_on(
    experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self) -> None:
            self.inner = plan(experiment)

        def answer(self, task: int, command: str) -> Any:
            if task == 1:
                raise MemoryError("no room")
            return self.inner.answer(task, command)

    monkeypatch.setattr(netcliff.dask, "_plan", lambda pickled: Broken())
    found = netcliff.dask.answer(b"", [0, 1, 2], netcliff.__version__)
    assert [state for _, state, _ in found] == ["done", "failed", "done"]
    kept = netcliff.sweeps.Sweep(plan(experiment))
    keeper = netcliff.sweeps.Keeper(kept, None, False, "test")
    for answer in found:
        keeper.keep(answer)
    assert "point 1 (interrupt" in kept.missing[0][2] and "no room" in kept.missing[0][2]


def test_tasks_cover_every_point_once(experiment: Path) -> None:
    asked = plan(experiment)
    cut = list(netcliff.dask.chunks(asked, range(len(asked)), 1e-3))
    assert [task for chunk in cut for task in chunk] == list(range(len(asked))) and len(cut) > 3


def test_a_long_sweep_holds_few_tasks(client: Client, experiment: Path) -> None:
    before = psutil.Process().memory_info().rss
    netcliff.dask.gather(experiment, client, task_s=1e-6)
    assert psutil.Process().memory_info().rss - before < 64 << 20


def test_the_module_runs_an_experiment(experiment: Path, tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    run = [sys.executable, "-m", "netcliff", "run"]
    subprocess.run([*run, str(experiment), "--local", "1", "--store", str(store)], check=True, capture_output=True)
    assert len(netcliff.Store(store).records("small")) == ANSWERED
    wrong = subprocess.run([*run, "nothing.toml", "--local", "1"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "nothing.toml" in wrong.stderr


def test_local_computes_without_opening_a_port(experiment: Path, tmp_path: Path) -> None:
    # Whoever reaches a port of Dask's runs code as its owner; other users of this machine reach loopback.
    slow = tmp_path / "slow.toml"
    slow.write_text(experiment.read_text().replace("packets = 5000", "packets = 2_000_000"))
    before = set(Path("/tmp").iterdir())
    run = subprocess.Popen(
        [sys.executable, "-m", "netcliff", "run", str(slow), "--local", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        process = psutil.Process(run.pid)
        seen = 0
        deadline = time.monotonic() + 5
        while run.poll() is None and time.monotonic() < deadline:
            family = [process, *process.children(recursive=True)]
            assert not [one for each in family for one in each.net_connections() if one.status == psutil.CONN_LISTEN]
            seen += process.num_threads() > 1
            time.sleep(0.1)
        assert seen > 5
    finally:
        run.kill()
        run.wait()
    assert not [path for path in set(Path("/tmp").iterdir()) - before if "dask" in path.name]


@pytest.mark.parametrize(
    ("option", "value", "accepted"),
    [
        *(("--local", value, "from 1 to 1024") for value in ("0", "-1", "100000000", "1e8", "two", "")),
        *(("--scheduler", value, "tls://HOST:PORT") for value in ("", "garbage", "ssh://x", "tcp://x", "tcp://x:0", "tcp://x:99999")),
        ("--scheduler", "tls://127.0.0.1:1", "TLS needs --tls-ca-file"),
    ],
)
def test_a_place_that_cannot_be_is_refused_in_a_sentence(experiment: Path, option: str, value: str, accepted: str) -> None:
    command = [sys.executable, "-m", "netcliff", "run", str(experiment), f"{option}={value}"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert said.returncode == 2 and accepted in said.stderr and value in said.stderr and "Traceback" not in said.stderr


def test_the_module_says_in_a_sentence_what_fails(
    client: Client, experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(*more: str) -> tuple[int, str]:
        arguments = ["netcliff", "run", str(experiment), "--scheduler", client.scheduler.address, *more]
        monkeypatch.setattr(sys, "argv", arguments)
        return netcliff.__main__.main(), capsys.readouterr().err

    code, said = main("--store", str(tmp_path))
    assert code == 1 and said.startswith("netcliff: cannot open the record store") and said.count("\n") == 1
    code, said = main("--engine", "wire")
    assert code == 2 and "engine wire" in said and said.count("\n") == 1
    monkeypatch.setattr(netcliff._core, "__version__", "9.9.9")
    code, said = main()
    assert code == 1 and said.startswith("netcliff: the driver has netcliff 9.9.9") and said.count("\n") == 1
