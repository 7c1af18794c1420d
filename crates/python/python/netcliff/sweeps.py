"""Sweeps on this machine: an experiment's points on all cores, into the store as they come, back as a Dataset."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Sequence

from . import _core
from .compute import share
from .results import Record

if TYPE_CHECKING:
    import xarray as xr

    from .hosts import Host

#: How a task of the engine wire is called.
MEASURED = "measured"
#: Called with (answered, all) after each point.
Progress = Callable[[int, int], None]
#: (task, "done"|"declined"|"failed", record or reason).
Answer = tuple[int, str, str]


def _changes(
    engines: Sequence[str] = (), seed: int | None = None, precision: str | float | None = None, packets: int | None = None
) -> dict[str, Any]:
    """What is changed of a file without editing it."""
    precise = None if precision is None else share(precision)
    return {"engines": list(engines), "seed": seed, "precision": precise, "packets": packets}


def plan(experiment: str | PathLike[str] | _core.Plan, *, measured: bool = False, **changes: Any) -> _core.Plan:
    """The tasks of an experiment: a TOML file, a known name such as "fig-7a", or the TOML text itself.

    With `measured` tasks of the engine wire are taken, too.
    """
    if isinstance(experiment, _core.Plan):
        return experiment
    given = fspath(experiment)
    path, text = ("experiment", given) if "\n" in given else (given, _core.experiment_text(given))
    return _core.Plan(path, text, _changes(**changes), measured)


@dataclass
class Sweep:
    """The answers of a sweep, by task."""

    plan: _core.Plan
    #: Record of each task that has one, as JSON.
    texts: dict[int, str] = field(default_factory=dict)
    #: (task, "declined" or "failed", reason with the point's name).
    missing: list[tuple[int, str, str]] = field(default_factory=list)
    #: Number of the run in the store, where one was given.
    run: int | None = None

    def record(self, task: int) -> Record | None:
        """The record of a task."""
        return Record(self.texts[task]) if task in self.texts else None

    def records(self) -> Iterator[Record]:
        """Every record, by task."""
        return (Record(self.texts[task]) for task in sorted(self.texts))

    def to_xarray(self) -> xr.Dataset:
        """Figures over named dimensions (needs the extra netcliff[xarray])."""
        from .dataset import of

        return of(self)


class Keeper:
    """The one writer: keeps each answer as it comes, in the store where one was given."""

    def __init__(self, sweep: Sweep, store: str | PathLike[str] | None, resume: bool, command: str) -> None:
        self.sweep, self.file, self.run = sweep, None, None
        if store is not None:
            self.file = _core.StoreFile(fspath(store), sweep.plan)
            self.run = self.file.take_up(sweep.plan, resume, command)
            sweep.run = self.run.number
            sweep.texts.update(self.file.task_records(self.run.number))

    def pending(self) -> list[int]:
        """Tasks without a record."""
        return [task for task in range(len(self.sweep.plan)) if task not in self.sweep.texts]

    def keep(self, answer: Answer) -> None:
        """Takes an answer; a second one to the same task is the same and is dropped."""
        task, state, text = answer
        if task in self.sweep.texts:
            return
        if state != "done":
            self.sweep.missing.append((task, state, f"{point_name(self.sweep.plan, task)}: {text}"))
            return
        if self.file is not None and self.run is not None:
            self.file.add(self.run.number, task, text)
        self.sweep.texts[task] = text

    def finish(self) -> None:
        """Marks the run as what it is, and lists what is missing by task: the order of arrival says nothing."""
        self.sweep.missing.sort()
        answered = len(self.sweep.texts) + len(self.sweep.missing)
        if self.file is None or self.run is None:
            return
        failed = any(state == "failed" for _, state, _ in self.sweep.missing)
        whole = answered >= len(self.sweep.plan)
        self.file.set_state(self.run.number, "interrupted" if not whole else "failed" if failed else "done")


def point_name(plan: _core.Plan, task: int) -> str:
    """A point for people."""
    about = plan.task(task)
    return f"point {task} ({about['curve']}, {about['engine']}, {about['rate']:g} {about['rate_unit']})"


def sweep(
    experiment: str | PathLike[str] | _core.Plan, *, engines: Sequence[str] = (), seed: int | None = None,
    precision: str | float | None = None, packets: int | None = None, threads: int | None = None,
    store: str | PathLike[str] | None = None, resume: bool = False, progress: Progress | bool = False,
    hosts: Sequence[Host] = (),
) -> xr.Dataset:  # fmt: skip
    """The points of an experiment on this machine, as a Dataset. The answer does not depend on `threads`.

    With `hosts` points of the engine wire are measured on them (see `netcliff.hosts`), after the others are computed here.

    With `store` each record is kept as it comes, so that ``resume=True`` goes on where a killed sweep stopped. `progress` is
    called with (answered, all); True shows it on stderr.
    """
    asked = plan(experiment, engines=engines, seed=seed, precision=precision, packets=packets, measured=bool(hosts))
    return local(asked, threads=threads, store=store, resume=resume, progress=progress, hosts=hosts).to_xarray()


def local(
    asked: _core.Plan, *, threads: int | None = None, store: str | PathLike[str] | None = None, resume: bool = False,
    progress: Progress | bool = False, hosts: Sequence[Host] = (),
) -> Sweep:  # fmt: skip
    """As `sweep`, with the records."""
    command = "python: netcliff.sweep"

    def answers(pending: list[int]) -> Iterable[Answer]:
        if not hosts:
            yield from asked.compute(pending, threads, command)
            return
        from . import hosts as measured

        # Computed first: it would disturb a measurement on this host.
        wire = [task for task in pending if asked.task(task)["engine"] == MEASURED]
        yield from asked.compute(sorted(set(pending) - set(wire)), threads, command)
        yield from measured.answers(hosts, asked, wire)

    return collect(asked, answers, store, resume, progress, command)


def collect(
    asked: _core.Plan, answers: Callable[[list[int]], Iterable[Answer]], store: str | PathLike[str] | None, resume: bool,
    progress: Progress | bool, command: str,
) -> Sweep:  # fmt: skip
    """Keeps the answers of whatever computes them. What came before an interruption is in the store."""
    result = Sweep(asked)
    keeper = Keeper(result, store, resume, command)
    tell = _teller(progress)
    try:
        for answer in answers(keeper.pending()):
            keeper.keep(answer)
            tell(len(result.texts) + len(result.missing), len(asked))
    finally:
        keeper.finish()
    return result


def _teller(progress: Progress | bool) -> Progress:
    if callable(progress):
        return progress
    return show if progress else lambda answered, of: None


def show(answered: int, of: int) -> None:
    """Progress on stderr: as it goes on a terminal, else the end only."""
    if sys.stderr.isatty() or answered == of:
        print(f"\r{answered} of {of} points", end="\n" if answered == of else "", file=sys.stderr, flush=True)
