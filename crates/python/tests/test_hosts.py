"""Measured sweeps over hosts: each host is a `netcliff run` of its own, here in a state directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import netcliff
import netcliff.hosts
import pytest
from netcliff.sweeps import plan

MEASURED = """
title = "measured and computed"
engines = ["model", "wire"]
schemes = ["napi", "interrupt"]
[host]
preset = "pentium4-2530mhz"
[traffic]
rates = "5kpps,8kpps"
"""

#: A stand-in for netcliff: says which point it was asked for, and for how long it was at it.
FAKE = r"""
import json, os, re, sys, time
from pathlib import Path
text = sys.stdin.read()
assert "measured and computed" in text, text
point = int(re.search(r"--points (\d+)", sys.argv[-1])[1])
begin = time.monotonic()
time.sleep(0.2)
behaviour = os.environ.get("FAKE", "")
if behaviour == "dies":
    sys.exit("the cable is pulled")
if behaviour == "hangs":
    time.sleep(600)
if behaviour == "bare":
    print(json.dumps({"event": "point", "point": point, "state": "declined", "why": "there is no testbed: no permission"}))
    sys.exit()
with open(os.environ["LOG"], "a") as log:
    log.write(json.dumps([point, begin, time.monotonic()]) + "\n")
record = json.loads(Path(os.environ["RECORD"]).read_text())
record["provenance"]["version"] = os.environ.get("VERSION", record["provenance"]["version"])
record["provenance"]["settings"]["experiment"] = os.environ["PLAN"]
print("no event")
print(json.dumps({"event": "point", "point": point, "state": "done", "record": record}))
"""


def has_namespaces() -> bool:
    found = subprocess.run(["ip", "netns", "list"], capture_output=True) if os.geteuid() == 0 else None
    return found is not None and found.returncode == 0


@pytest.fixture
def fake(tmp_path: Path) -> Any:
    asked = plan(MEASURED, measured=True)
    (tmp_path / "fake.py").write_text(FAKE)
    (tmp_path / "record.json").write_text(netcliff.predict("napi", rate="5kpps").to_json())

    def host(name: str, **changes: str) -> list[str]:
        log, record = tmp_path / f"{name}.log", tmp_path / "record.json"
        settings = {"LOG": log, "RECORD": record, "PLAN": asked.id, **changes}
        return ["env", *(f"{key}={value}" for key, value in settings.items()), sys.executable, str(tmp_path / "fake.py")]

    def times(name: str) -> list[tuple[int, float, float]]:
        log = tmp_path / f"{name}.log"
        return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []

    host.times = times  # type: ignore[attr-defined]
    return host


def wire(asked: Any) -> list[int]:
    return [task for task in range(len(asked)) if asked.task(task)["engine"] == "measured"]


def test_two_hosts_measure_at_a_time_and_each_one_point(fake: Any) -> None:
    asked = plan(MEASURED, measured=True)
    found = list(netcliff.hosts.answers([fake("one"), fake("two")], asked, wire(asked)))
    assert sorted(task for task, _, _ in found) == wire(asked) and {state for _, state, _ in found} == {"done"}
    one, two = fake.times("one"), fake.times("two")
    assert len(one) + len(two) == 4 and one and two
    for times in (one, two):
        assert all(a[2] <= b[1] for a, b in zip(times, times[1:])), "one at a time"
    assert any(a[1] < b[2] and b[1] < a[2] for a in one for b in two), "in parallel"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"FAKE": "dies"}, "the cable is pulled"),
        ({"FAKE": "hangs"}, "no answer within 2 s"),
        ({"FAKE": "bare"}, "there is no testbed: no permission"),
        ({"VERSION": "9.9.9"}, "has netcliff 9.9.9"),
    ],
)
def test_a_host_that_fails_is_left_out_and_its_point_measured_elsewhere(fake: Any, changes: dict[str, str], why: str) -> None:
    asked = plan(MEASURED, measured=True)
    with pytest.warns(UserWarning, match=why):
        found = list(netcliff.hosts.answers([fake("bad", **changes), fake("good")], asked, wire(asked), limit_s=2.0))
    assert sorted(found)[0][0] == wire(asked)[0] and [state for _, state, _ in found] == ["done"] * 4
    with pytest.warns(UserWarning):
        found = list(netcliff.hosts.answers([fake("bad", **changes)], asked, wire(asked), limit_s=2.0))
    assert [state for _, state, _ in found] == ["failed"] * 4 and all(why in text for _, _, text in found)


def test_a_reader_that_leaves_ends_what_is_measured(fake: Any) -> None:
    asked = plan(MEASURED, measured=True)
    found = netcliff.hosts.answers([fake("one"), fake("slow", FAKE="hangs")], asked, wire(asked))
    next(found)
    before = time.monotonic()
    found.close()
    assert time.monotonic() - before < 15 and threading.active_count() < 10


@pytest.mark.parametrize("hosts", [["-oProxyCommand=x"], [""], ["a", "a"]])
def test_wrong_hosts_are_refused(hosts: list[str]) -> None:
    with pytest.raises(netcliff.UsageError, match="hosts: "):
        next(netcliff.hosts.answers(hosts, plan(MEASURED, measured=True), [0]))


def test_a_host_of_ssh_is_asked_by_a_shell_over_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ssh` is a stand-in that runs what it is told in a shell, as sshd does."""
    stand_in = tmp_path / "ssh"
    stand_in.write_text('#!/bin/sh\necho "$3" >"$0.asked"\nexec sh -c "$4"\n')
    stand_in.chmod(0o755)
    (tmp_path / "netcliff").write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/arguments\nwc -l <"$2" >{tmp_path}/lines\n')
    (tmp_path / "netcliff").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked = plan(MEASURED, measured=True, seed=7)
    with pytest.warns(UserWarning, match="root@db1: ended without an answer"):
        list(netcliff.hosts.answers(["root@db1"], asked, [4]))
    assert (tmp_path / "ssh.asked").read_text() == "root@db1\n"
    run, file, _, store, *rest = (tmp_path / "arguments").read_text().split()
    assert run == "run" and rest == ["--live", "--seed", "7", "--points", "4"]
    assert Path(store).parent == Path(file).parent and not Path(file).parent.exists()
    assert int((tmp_path / "lines").read_text()) == MEASURED.count("\n")


@pytest.mark.skipif(not has_namespaces(), reason="SKIPPED: needs root and network namespaces")
def test_real_packets_of_two_hosts_become_a_dataset(binary: str, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "netcliff").symlink_to(Path(binary).resolve())

    def host(name: str) -> list[str]:
        state = tmp_path / name
        state.mkdir(mode=0o700)
        path = f"PATH={programs}:{os.environ['PATH']}"
        return ["env", f"NETCLIFF_STATE_DIR={state}", path, "unshare", "--net", "--", "sh", "-c"]

    store = tmp_path / "records.db"
    data = netcliff.sweep(MEASURED, hosts=[host("one"), host("two")], store=store)
    measured = data.sel(engine="measured", scheme=str(netcliff.Scheme("napi")))
    offered = data.rate.values
    assert bool((abs(measured.throughput_pps / offered - 1) < 0.2).all()), "below any cliff"
    names = set(measured.measured_on.values)
    assert len(names) == 2 and all("NETCLIFF_STATE_DIR" in name for name in names)
    # The testbed runs this kernel's NAPI only.
    missing = data.attrs["missing"]
    assert len(missing) == 2 and all("this kernel's NAPI, not interrupt" in why for why in missing)
    assert bool(data.throughput_pps.isel(engine=0).notnull().all())
    kept = netcliff.Store(store).records()
    assert sum(record.engine == "wire" for record in kept) == 2
    assert netcliff.Store(store).runs()[0]["state"] == "done"
