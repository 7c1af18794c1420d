"""What comes back: a record of one point, a curve of many."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any, Iterator, Mapping, cast

from . import _core

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import xarray as xr

    Floats = npt.NDArray[np.float64]

#: Name and unit (as pint reads it) of each figure.
MEASURES: Mapping[str, tuple[str, str]] = {key: (name, unit) for key, name, unit in _core.measures()}


class Record:
    """A point with its outcome and provenance: what ``--json`` prints as one line.

    Figures are attributes by their column names (``throughput_pps``, ``latency_p99_s``): a float, or None where the engine
    has none. ``interval(name)`` gives the ends where the figure was sampled.

    >>> record = Record.from_json(__import__("netcliff").predict("napi", rate="90kpps").to_json())
    >>> record.engine, record.interval("throughput_pps")
    ('model', None)
    """

    __slots__ = ("_figures", "_text", "data")

    def __init__(self, text: str) -> None:
        self._text = text
        #: The whole record as dicts and lists.
        self.data: dict[str, Any] = json.loads(text)
        self._figures = {key: (value, low, high) for key, value, low, high in _core.figures(text)}

    @classmethod
    def from_json(cls, text: str) -> Record:
        """A record from its JSON."""
        return cls(text)

    def to_json(self) -> str:
        """The record as JSON, as the command line prints it."""
        return self._text

    @property
    def engine(self) -> str:
        """Who answered: model, sim or wire."""
        return str(self.data["engine"])

    @property
    def outcome(self) -> dict[str, Any]:
        """What was found, as in the JSON."""
        return cast("dict[str, Any]", self.data["outcome"])

    @property
    def provenance(self) -> dict[str, Any]:
        """How it was found."""
        return cast("dict[str, Any]", self.data["provenance"])

    @property
    def notes(self) -> list[str]:
        """What a reader must know."""
        return list(self.outcome.get("notes", []))

    @property
    def figures(self) -> dict[str, float]:
        """Every figure that was found, by name."""
        return {key: value for key, (value, _, _) in self._figures.items()}

    def interval(self, name: str) -> tuple[float, float] | None:
        """Ends of the confidence interval of a figure; None where it was computed or is absent."""
        _, low, high = self._figures.get(name, (0.0, float("nan"), float("nan")))
        return None if low != low else (low, high)

    def __getattr__(self, name: str) -> float | None:
        if name in MEASURES:
            return self._figures[name][0] if name in self._figures else None
        raise AttributeError(f"a record has no figure {name!r}; expected one of {', '.join(MEASURES)}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type[Record], tuple[str]]:
        return Record, (self._text,)

    def __repr__(self) -> str:
        return f"netcliff.Record.from_json({self._text!r})"

    def __str__(self) -> str:
        point = self.data["point"]
        figures = ", ".join(f"{key}={value:.6g}" for key, value in self.figures.items())
        return f"{point['scheme']} at {point['traffic']['rate']} ({self.engine}): {figures}"

    def _repr_html_(self) -> str:
        rows = []
        for key, (value, low, high) in self._figures.items():
            name, unit = MEASURES[key]
            ends = "" if low != low else f"{low:.6g} to {high:.6g}"
            rows.append(f"<tr><th>{html.escape(name)}</th><td>{value:.6g}</td><td>{ends}</td><td>{unit}</td></tr>")
        head = "<tr><th>figure</th><th>value</th><th>interval</th><th>unit</th></tr>"
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        caption = html.escape(f"{self.data['point']['scheme']} at {self.data['point']['traffic']['rate']}, {self.engine}")
        return f"<table><caption>{caption}</caption>{head}{''.join(rows)}</table><ul>{notes}</ul>"


class Curve:
    """Figures of many points, each an array of the broadcast shape; what is absent is NaN.

    ``curve["throughput_pps"]`` is the array of values, ``curve.low(name)`` and ``curve.high(name)`` the ends of the
    intervals (None where the figure was computed).
    """

    def __init__(
        self,
        values: dict[str, Floats],
        ends: dict[str, tuple[Floats, Floats]],
        inputs: dict[str, Floats],
        about: dict[str, Any],
        notes: list[tuple[int, str]],
        axes: Mapping[str, tuple[int, ...]],
    ) -> None:
        self._values, self._ends, self._axes = values, ends, axes
        #: The quantities that vary, broadcast; NaN where an argument was masked.
        self.inputs = inputs
        #: Engine, scheme, host and version.
        self.about = about
        #: (flat index of the point, note).
        self.notes = notes

    def __getitem__(self, name: str) -> Floats:
        try:
            return self._values[name]
        except KeyError:
            known = ", ".join(self._values)
            raise KeyError(f"{name!r} is not in this curve; it has {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def keys(self) -> list[str]:
        """The figures that were found."""
        return list(self._values)

    def low(self, name: str) -> Floats | None:
        """Lower ends of the intervals."""
        return self._ends[name][0] if name in self._ends else None

    def high(self, name: str) -> Floats | None:
        """Upper ends of the intervals."""
        return self._ends[name][1] if name in self._ends else None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of every figure: that of the arguments, broadcast."""
        return next(iter(self.inputs.values())).shape

    def __repr__(self) -> str:
        return f"<netcliff.Curve {self.about['scheme']} ({self.about['engine']}) shape={self.shape}: {', '.join(self._values)}>"

    def _repr_html_(self) -> str:
        from .plot import svg

        x = next(iter(self.inputs), None)
        if x is None or "throughput_pps" not in self or self.inputs[x].ndim != 1:
            return html.escape(repr(self))
        return svg(self.inputs[x], self["throughput_pps"], x, "throughput_pps") + f"<p>{html.escape(repr(self))}</p>"

    def to_xarray(self) -> xr.Dataset:
        """The curve as a Dataset (needs the extra netcliff[xarray]): a dimension for each axis, units in the attributes.

        A dimension has the name of the one quantity that varies along it alone. Where several do, or none, it is `axis_0`,
        `axis_1`, ..., and the quantities are coordinates over it.
        """
        import xarray as xr

        dims = [self._dimension(axis) for axis in range(len(self.shape))]
        data: dict[str, Any] = {}
        for key, values in self._values.items():
            name, unit = MEASURES[key]
            data[key] = (dims, values, {"units": unit, "long_name": name})
            for end, array in zip(("low", "high"), self._ends.get(key, ())):
                data[f"{key}_{end}"] = (dims, array, {"units": unit, "long_name": f"{name}, {end} end"})
        coords = {}
        for key, values in self.inputs.items():
            if key in dims:
                axis = dims.index(key)
                values = values[tuple(slice(None) if n == axis else 0 for n in range(len(dims)))]
            coords[key] = ([key] if key in dims else dims, values, {"units": _unit(key)})
        return xr.Dataset(data, coords=coords, attrs={key: str(value) for key, value in self.about.items()})

    def _dimension(self, axis: int) -> str:
        """The name of an axis: of the quantity that varies along it alone."""
        along = [name for name, axes in self._axes.items() if axis in axes]
        whole = len(self.shape) == 1 or 0 not in self.shape
        alone = len(along) == 1 and self._axes[along[0]] == (axis,) and whole and not self._masked(along[0])
        return along[0] if alone else f"axis_{axis}"

    def _masked(self, name: str) -> bool:
        return bool((self.inputs[name] != self.inputs[name]).any())


def _unit(name: str) -> str:
    for ending, unit in (("_pps", "1/s"), ("_bps", "bit/s"), ("_bytes", "byte"), ("_s", "s")):
        if name.endswith(ending):
            return unit
    return "1"
