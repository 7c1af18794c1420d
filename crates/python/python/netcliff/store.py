"""The record store and files of records, for reading."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any, Iterator

from . import _core
from .results import Record


class Store:
    """The SQLite store of ``netcliff --db FILE``; without a path the one in the XDG data directory. Nothing is written.

    ``store.runs()`` lists the runs as dicts, newest first; ``store.records("last")`` has the records of one.
    """

    def __init__(self, path: str | PathLike[str] | None = None) -> None:
        self._file = _core.StoreFile(None if path is None else str(path))

    @property
    def path(self) -> str:
        """Where it is."""
        return str(self._file.path)

    def runs(self) -> list[dict[str, Any]]:
        """The runs, newest first."""
        return [json.loads(text) for text in self._file.runs()]

    def records(self, run: int | str = "last") -> list[Record]:
        """The records of a run: its number, its name, "last", "last~2"."""
        return [Record(text) for text in self._file.records(self._file.find(str(run)))]

    def document(self, run: int | str = "last") -> dict[str, Any] | None:
        """The whole result of a `find`, `stream` or another run that is no list of records; else None."""
        text = self._file.document(self._file.find(str(run)))
        found: dict[str, Any] | None = None if text is None else json.loads(text)
        return found

    def __repr__(self) -> str:
        return f"netcliff.Store({self.path!r})"

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        return Store, (self.path,)


def read_records(path: str | PathLike[str]) -> Iterator[Record]:
    """The records of a file that ``--json`` wrote, one a line."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield Record(line.strip())
