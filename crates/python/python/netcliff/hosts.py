"""Measured sweeps: points of the engine wire on real hosts, one at a time on each, hosts in parallel.

On each host its own ``netcliff run --points N`` measures a point with real packets on that host's testbed (two namespaces joined
by veth, which need root or user namespaces there). Its files are in a temporary directory there for as long; nothing is kept.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import warnings
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Iterator, Sequence, Union

from . import _core
from .sweeps import Answer

#: An ssh destination such as "root@db1", or the words that run a line of shell there, such as ["ssh", "-p", "2222", "db1"].
Host = Union[str, Sequence[str]]

#: The longest that a host may take for a point (s): a trial takes one, a testbed less, and another run there is not waited for.
LIMIT_S = 120.0
#: How `netcliff run` begins its reason where the host, not the point, is what lacks something.
NO_TESTBED = "there is no testbed"
#: What a host's shell does: the file comes by standard input; where it is told to end, so is netcliff, which undoes its testbed.
SCRIPT = """d=$(mktemp -d) && cat >"$d/sweep.toml" || exit
trap 'rm -rf "$d"' EXIT
trap 'kill $p; wait $p' TERM HUP
netcliff run "$d/sweep.toml" --db "$d/records.db" %s & p=$!
wait $p"""


class HostError(RuntimeError):
    """A host did not measure: it cannot be reached, lacks a testbed, or has another netcliff."""


class Measurer:
    """One host."""

    def __init__(self, host: Host) -> None:
        self.name = host if isinstance(host, str) else shlex.join(host)
        if not self.name or self.name.startswith("-"):
            raise _core.UsageError(f"hosts: {host!r}: expected an ssh destination such as \"root@db1\", or the words of a command")
        self._words = ["ssh", "-o", "BatchMode=yes", host] if isinstance(host, str) else list(host)
        self._running: subprocess.Popen[str] | None = None
        self._stopped = False

    def measure(self, asked: _core.Plan, task: int, limit_s: float = LIMIT_S) -> Answer:
        """The answer to a task. HostError: the host has none."""
        command = [*self._words, SCRIPT % shlex.join([*_arguments(asked), "--points", str(task)])]
        try:
            out, err = self._run(command, asked.text, limit_s)
        except subprocess.TimeoutExpired as error:
            raise HostError(f"{self.name}: no answer within {limit_s:g} s") from error
        except OSError as error:
            raise HostError(f"{self.name}: {error}") from error
        event = _event(out, task)
        if event is None:
            raise HostError(f"{self.name}: {err.strip().splitlines()[-1] if err.strip() else 'ended without an answer'}")
        return self._answer(asked, task, event)

    def _run(self, command: list[str], text: str, limit_s: float) -> tuple[str, str]:
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as running:
            self._running = running
            try:
                if self._stopped:
                    running.terminate()
                return running.communicate(text, timeout=limit_s)
            finally:
                self._running = None
                _end(running)

    def _answer(self, asked: _core.Plan, task: int, event: dict[str, Any]) -> Answer:
        state, why, record = str(event["state"]), str(event.get("why")), event.get("record")
        if state != "done" or not isinstance(record, dict):
            if why.startswith(NO_TESTBED):
                raise HostError(f"{self.name}: {why}")
            return task, state, f"{self.name}: {why}"
        about = record["provenance"]
        if (about["version"], about["settings"].get("experiment")) != (_core.__version__, asked.id):
            raise HostError(f"{self.name} has netcliff {about['version']}, this is {_core.__version__}: install the same there")
        about["settings"]["measured_on"] = self.name
        return task, "done", json.dumps(record)

    def stop(self) -> None:
        """Ends what is under way."""
        self._stopped = True
        if running := self._running:
            running.terminate()


def _end(running: subprocess.Popen[str]) -> None:
    """Asks a process to end, so that netcliff undoes its testbed; kills it where it does not."""
    running.terminate()
    try:
        running.wait(timeout=10)
    except subprocess.TimeoutExpired:
        running.kill()


def _arguments(asked: _core.Plan) -> list[str]:
    """The same experiment with the same changes: points have the same numbers there."""
    found = ["--live"]
    for name, value in asked.changes.items():
        flag = "--engine" if name == "engines" else f"--{name}"
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            found += [flag, str(each)]
    return found


def _event(out: str, task: int) -> dict[str, Any] | None:
    """What `--live` says of the point."""
    for line in out.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and (event.get("event"), event.get("point")) == ("point", task):
            return event
    return None


def answers(hosts: Sequence[Host], asked: _core.Plan, pending: list[int], limit_s: float = LIMIT_S) -> Iterator[Answer]:
    """Answers as they come. A host that fails is left out with a warning, and its point goes to another."""
    measurers = [Measurer(host) for host in hosts]
    if len({measurer.name for measurer in measurers}) < len(measurers):
        raise _core.UsageError("hosts: one is named twice; each measures one point at a time")
    free, waiting, lost = deque(measurers), deque(pending), list[str]()
    underway: dict[Future[Answer], tuple[Measurer, int]] = {}
    with ThreadPoolExecutor(max(1, len(measurers))) as pool:
        try:
            while waiting or underway:
                while waiting and free:
                    measurer, task = free.popleft(), waiting.popleft()
                    underway[pool.submit(measurer.measure, asked, task, limit_s)] = (measurer, task)
                if not underway:
                    break
                for future in wait(underway, return_when=FIRST_COMPLETED).done:
                    measurer, task = underway.pop(future)
                    try:
                        answer = future.result()
                    except HostError as error:
                        lost.append(str(error))
                        waiting.appendleft(task)
                        warnings.warn(f"{error}; measured without this host", stacklevel=2)
                        continue
                    free.append(measurer)
                    yield answer
        finally:
            for measurer in measurers:
                measurer.stop()
    for task in waiting:
        yield task, "failed", f"no host is left: {'; '.join(lost)}"
