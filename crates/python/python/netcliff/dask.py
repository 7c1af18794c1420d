"""Sweeps on a Dask cluster: the same experiment files and the same figures as on this machine.

A point's seed is the experiment's, so its answer depends neither on the worker nor on how points are cut into tasks: a
task that is done again after a worker died gives the same digits. One writer, the driver, keeps answers as they come.

Short points travel as wholes, several a task. Of a long one the replications travel: how many are needed, and how long, is
decided by the driver.
"""

from __future__ import annotations

import pickle
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from functools import lru_cache, partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Sequence

from . import _core
from .sweeps import Answer, Progress, Sweep, collect, plan

if TYPE_CHECKING:
    import xarray as xr
    from distributed import Client

#: Longest Dask task (s): Dask itself takes about a millisecond for each, so that this is well below 1 %.
TASK_S = 2.0
#: Shortest one, at the end of a sweep (s).
SHORTEST_S = 0.1
#: A task is at most such a part of what is left for each thread: those at the end are short, so that no worker waits long for the last.
PARTS = 4
#: A point that takes longer is begun anew, its replications spread over the workers (s): no more than this is lost for it.
LONG_S = 5.0
#: Long points at once, at the most: each has all workers, but for the ends of its orders.
LONG_AT_ONCE = 8
#: What the records say of where they come from.
COMMAND = "python: netcliff.dask.sweep"
#: Tasks in flight for each thread of a worker: enough to keep it busy, few enough to bound the driver's memory.
AHEAD = 3


class VersionError(RuntimeError):
    """Driver and workers do not all have the same netcliff."""


@lru_cache(maxsize=4)
def _plan(pickled: bytes) -> _core.Plan:
    """The experiment, expanded once a worker. It travels with each task: what is scattered dies with its worker."""
    asked: _core.Plan = pickle.loads(pickled)
    return asked


def _another(version: str) -> VersionError | None:
    """What a worker of another version answers: Dask would try again what is raised."""
    if version == _core.__version__:
        return None
    return VersionError(f"this worker has netcliff {_core.__version__}, the driver {version}: install the same wheel")


def answer(pickled: bytes, tasks: Sequence[int], version: str, long_s: float = LONG_S) -> list[Answer] | VersionError:
    """What a worker does: the tasks in one go. A task that fails is an answer, so that the others go on; so is one that is
    "long", without an answer yet."""
    if another := _another(version):
        return another
    asked = _plan(pickled)
    # A thread a call, not a task: on a virtual machine one takes as long to begin as a short point.
    found = list[Answer]()
    with suppress(Exception):
        found.extend(asked.answer_within(list(tasks), long_s, COMMAND))
    answered = {task for task, _, _ in found}
    return found + [_answer(asked, task) for task in tasks if task not in answered]


def replicate(pickled: bytes, task: int, order: bytes, version: str) -> bytes | VersionError:
    """What a worker does for a long point: some of its replications."""
    return _another(version) or _plan(pickled).replicate(task, order)


def _answer(asked: _core.Plan, task: int) -> Answer:
    """One task by itself, where one of several broke off: it must not lose the others."""
    try:
        told: Answer = asked.answer(task, COMMAND)
    except Exception as error:
        return (task, "failed", f"{type(error).__name__}: {error}")
    return told


def chunks(asked: _core.Plan, pending: Sequence[int], task_s: float = TASK_S, threads: int = 1) -> Iterator[list[int]]:
    """Points cut into tasks by their expected length: of at most `task_s`, and shorter towards the end (guided self-scheduling)."""
    lengths_s = [asked.expected_s(task) for task in pending]
    left_s = sum(lengths_s)
    chunk: list[int] = []
    length_s = 0.0
    for task, one_s in zip(pending, lengths_s):
        chunk.append(task)
        length_s += one_s
        if length_s >= min(task_s, max(left_s / (PARTS * threads), SHORTEST_S)):
            yield chunk
            left_s -= length_s
            chunk, length_s = [], 0.0
    if chunk:
        yield chunk


def _version() -> str:
    return str(_core.__version__)


def check_versions(client: Client) -> None:
    """Refuses workers with another netcliff, by name."""
    # A worker that has just died answers with its exception; whoever comes later is asked by each task.
    told: Any = client.run(_version, on_error="return")
    others = {name: found for name, found in told.items() if isinstance(found, str) and found != _core.__version__}
    if others:
        each = ", ".join(f"{name} has {found}" for name, found in sorted(others.items()))
        raise VersionError(f"the driver has netcliff {_core.__version__}, but {each}: install the same wheel on every worker")


class Spread:
    """Long points: a thread of the driver decides each, and the workers have its replications."""

    def __init__(self, client: Client, asked: _core.Plan, pickled: bytes) -> None:
        self.client, self.asked, self.pickled = client, asked, pickled
        self.threads = _threads(client)
        self.pool = ThreadPoolExecutor(min(LONG_AT_ONCE, self.threads))
        self.underway: dict[Future[Answer], int] = {}
        self.ordered: set[Any] = set()
        self.closed = False

    def begin(self, task: int) -> None:
        """Takes a point up."""
        fetch = partial(self._fetch, task)
        self.underway[self.pool.submit(self.asked.answer_elsewhere, task, self.threads, fetch, COMMAND)] = task

    def _fetch(self, task: int, orders: list[bytes]) -> list[bytes]:
        """Has the workers fill the orders, before they take up further points."""
        if self.closed:
            raise RuntimeError("cancelled")
        ask = partial(self.client.submit, replicate, self.pickled, task)
        futures = [ask(order, _core.__version__, pure=False, retries=3, priority=1) for order in orders]
        self.ordered.update(futures)
        try:
            found: list[bytes | VersionError] = self.client.gather(futures)
        finally:
            self.ordered.difference_update(futures)
        for one in found:
            if isinstance(one, VersionError):
                raise one
        return [one for one in found if isinstance(one, bytes)]

    def answers(self, *, wait: bool) -> Iterator[Answer]:
        """What has been answered; with `wait` all."""
        while self.underway:
            finished, _ = wait_for(self.underway, timeout=None if wait else 0, return_when=FIRST_COMPLETED)
            if not finished:
                return
            for future in finished:
                yield self._told(future, self.underway.pop(future))

    @staticmethod
    def _told(future: Future[Answer], task: int) -> Answer:
        why = future.exception()
        return (task, "failed", f"{why}") if why else future.result()

    def close(self) -> None:
        """Ends what is under way."""
        self.closed = True
        self.client.cancel(list(self.ordered), force=True)
        self.pool.shutdown(wait=False, cancel_futures=True)


def answers(
    client: Client, asked: _core.Plan, pending: list[int], task_s: float = TASK_S, long_s: float = LONG_S
) -> Iterator[Answer]:
    """Answers as they come. At most `AHEAD` tasks a thread are in flight."""
    from distributed import as_completed

    check_versions(client)
    pickled = pickle.dumps(asked)
    spread = Spread(client, asked, pickled)
    long = [task for task in pending if asked.expected_s(task) > long_s]
    waiting = deque(chunks(asked, sorted(set(pending) - set(long)), task_s, spread.threads))
    underway: dict[Any, list[int]] = {}
    finished = as_completed()

    def submit() -> None:
        chunk = waiting.popleft()
        future = client.submit(answer, pickled, chunk, _core.__version__, long_s, pure=False, retries=3)
        underway[future] = chunk
        finished.add(future)

    try:
        for task in long:
            spread.begin(task)
        for _ in range(min(len(waiting), AHEAD * spread.threads)):
            submit()
        while underway:
            future = next(finished)
            for found in _told(future, underway.pop(future)):
                if found[1] == "long":
                    spread.begin(found[0])
                else:
                    yield found
            future.release()
            if waiting:
                submit()
            yield from spread.answers(wait=False)
        yield from spread.answers(wait=True)
    finally:
        client.cancel(list(underway), force=True)
        spread.close()


def _threads(client: Client) -> int:
    counts: Any = client.nthreads()
    return max(1, int(sum(counts.values())))


def _told(future: Any, chunk: list[int]) -> Iterable[Answer]:
    if future.status == "finished":
        found: list[Answer] | VersionError = future.result()
        if isinstance(found, VersionError):
            raise found
        return [(task, state, text) for task, state, text in found]
    # The worker died again and again, or the cluster did: these points have no answer.
    why = "cancelled" if future.status == "cancelled" else str(future.exception())
    return [(task, "failed", why) for task in chunk]


def gather(
    experiment: str | PathLike[str] | _core.Plan, client: Client, *, engines: Sequence[str] = (), seed: int | None = None,
    precision: str | float | None = None, packets: int | None = None, store: str | PathLike[str] | None = None,
    resume: bool = False, progress: Progress | bool = False, task_s: float = TASK_S, long_s: float = LONG_S,
) -> Sweep:  # fmt: skip
    """As `sweep`, with the records."""
    asked = plan(experiment, engines=engines, seed=seed, precision=precision, packets=packets)
    return collect(asked, lambda pending: answers(client, asked, pending, task_s, long_s), store, resume, progress, COMMAND)


def sweep(
    experiment: str | PathLike[str] | _core.Plan, client: Client, *, engines: Sequence[str] = (), seed: int | None = None,
    precision: str | float | None = None, packets: int | None = None, store: str | PathLike[str] | None = None,
    resume: bool = False, progress: Progress | bool = False, task_s: float = TASK_S, long_s: float = LONG_S,
) -> xr.Dataset:  # fmt: skip
    """The points of an experiment on a cluster, as a Dataset: the same digits as ``netcliff.sweep``.

    With `store` the driver keeps each record as it comes; ``resume=True`` goes on after the driver was killed.
    """
    asked = gather(
        experiment, client, engines=engines, seed=seed, precision=precision, packets=packets, store=store, resume=resume,
        progress=progress, task_s=task_s, long_s=long_s,
    )  # fmt: skip
    return asked.to_xarray()
