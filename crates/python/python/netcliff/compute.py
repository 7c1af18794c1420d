"""Points and curves: `predict`, `simulate`, `cliff`, `sensitivities`, `advise`."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any, Sequence, Union

from . import _core
from ._core import Host, Scheme, Traffic, UsageError
from .results import Curve, Record

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = Union[float, npt.ArrayLike]

#: Quantities of the traffic that may be arrays; those of the host are its keys with their unit.
TRAFFIC_COLUMNS = ("rate_pps", "rate_bps", "line_share", "size_bytes")
_TRAFFIC_KEYS = ("rate", "rate_pps", "rate_bps", "arrivals", "size", "size_bytes", "link", "link_bps", "flows")


class _Simulation:
    """What `simulate` takes beyond the point."""

    def __init__(self, seed: int, packets: int, precision: str | float | None, figures: str, most: int, confidence: Any) -> None:
        self.seed, self.packets, self.packets_at_most, self.figures = seed, int(packets), int(most), figures
        self.precision = None if precision is None else share(precision)
        self.confidence = share(confidence)


def share(value: str | float) -> str:
    """A share as a text: "2%" as it is, 0.02 as "2%"."""
    return value if isinstance(value, str) else f"{_decimal(100.0 * value)}%"


def _decimal(value: float) -> str:
    text = f"{value:.12f}".rstrip("0").rstrip(".")
    return text or "0"


def _is_array(value: object) -> bool:
    return not isinstance(value, (str, bytes, int, float, type(None))) and hasattr(value, "__len__")


def _host(host: Host | str) -> Host:
    return host if isinstance(host, Host) else Host(host)


def _scheme(scheme: Scheme | str) -> Scheme:
    return scheme if isinstance(scheme, Scheme) else Scheme(scheme)


def _arrays(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arrays among the arguments."""
    return {name: value for name, value in arguments.items() if _is_array(value)}


def _split(arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of the traffic, and changes of the host."""
    traffic: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in _TRAFFIC_KEYS:
            traffic[name] = value
        elif name == "line_share":
            traffic["rate"] = share(value)
        else:
            _known(name)
            changes[name] = value
    return traffic, changes


def _known(name: str) -> None:
    """Refuses a keyword that is no quantity, as Python refuses an unknown argument."""
    if {name, name.removesuffix("_s")} & set(_core.HOST_KEYS):
        return
    quantities = [*_TRAFFIC_KEYS, "line_share", *_core.HOST_KEYS]
    near = difflib.get_close_matches(name, [*quantities, *(f"{key}_s" for key in _core.HOST_KEYS)], 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise TypeError(f"unexpected keyword argument {name!r}; {hint}expected one of {', '.join(quantities)}")


def _point(
    host: Host | str, scheme: Scheme | str, traffic: Traffic | None, given: dict[str, Any], loaded: bool
) -> tuple[Host, Scheme, Traffic]:
    """The three parts of a point; without `loaded` any load serves."""
    asked, changes = _split(given)
    base = _host(host)
    base = base.replace(**changes) if changes else base
    if traffic is not None and asked:
        raise UsageError(f"traffic and {', '.join(asked)} are both given; give one of them")
    if traffic is None:
        trace = str(asked.get("arrivals", "")).startswith("trace")
        if not loaded and not trace and not any(key in asked for key in ("rate", "rate_pps", "rate_bps")):
            asked["rate"] = "1pps"
        traffic = Traffic(**asked)
    return base, _scheme(scheme), traffic


def _curve(
    engine: str, host: Host | str, scheme: Scheme | str, traffic: Traffic | None, given: dict[str, Any],
    arrays: dict[str, Any], fidelity: str, simulation: _Simulation, threads: int | None,
) -> Curve:  # fmt: skip
    import numpy as np

    for name in arrays:
        if name not in TRAFFIC_COLUMNS and name.removesuffix("_s") not in _core.HOST_KEYS:
            known = ", ".join(TRAFFIC_COLUMNS)
            raise UsageError(f"{name}: no quantity that can be an array; expected {known}, or a host's cost such as application_s")
    loads = [name for name in ("rate_pps", "rate_bps", "line_share") if name in arrays]
    scalars = {key: value for key, value in given.items() if key not in arrays}
    if len(loads) > 1 or (loads and any(key in scalars for key in ("rate", "rate_pps", "rate_bps", "line_share"))):
        raise UsageError("the load is given twice; give one of rate, rate_pps, rate_bps, line_share")
    parts = _point(host, scheme, traffic, scalars, loaded=not loads)
    columns = [np.ma.asarray(value, dtype=np.float64) for value in arrays.values()]
    try:
        shape = np.broadcast_shapes(*(column.shape for column in columns))
    except ValueError as error:
        shapes = ", ".join(f"{name} {column.shape}" for name, column in zip(arrays, columns))
        raise UsageError(f"these arrays do not broadcast: {shapes}") from error
    wide = [np.broadcast_to(np.ma.getdata(column), shape) for column in columns]
    # Masked points are not computed: their figures are NaN.
    present = np.ones(shape, dtype=bool)
    for column in columns:
        present &= ~np.broadcast_to(np.ma.getmaskarray(column), shape)
    packed = [(name, column[present].tobytes()) for name, column in zip(arrays, wide)]
    found, notes = _core.curve(engine, *parts, packed, fidelity, simulation, threads)

    def array(data: bytes) -> Any:
        values = np.full(shape, np.nan)
        values[present] = np.frombuffer(data, dtype=np.float64)
        return values

    values = {key: array(data) for key, data, _ in found}
    ends = {key: (array(pair[0]), array(pair[1])) for key, _, pair in found if pair is not None}
    about: dict[str, Any] = {"engine": engine, "scheme": str(parts[1]), "host": repr(parts[0]), "netcliff_version": _core.__version__}
    if engine == "sim":
        about["seed"] = simulation.seed
    places = np.flatnonzero(present)
    inputs = {name: np.where(present, column, np.nan) for name, column in zip(arrays, wide)}
    axes = {name: _axes(column.shape, shape) for name, column in zip(arrays, columns)}
    return Curve(values, ends, inputs, about, [(int(places[at]), note) for at, note in notes], axes)


def _axes(own: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of `shape` along which an array of the shape `own` varies; the only axis of a one-dimensional one counts."""
    ahead = len(shape) - len(own)
    return tuple(ahead + n for n, length in enumerate(own) if length == shape[ahead + n] and (length != 1 or len(own) == 1))


_USUAL = _Simulation(1, 1_000_000, None, "throughput,latency,cpu", 200_000_000, "95%")


def predict(
    scheme: Scheme | str, *, host: Host | str = "pentium4-2530mhz", traffic: Traffic | None = None, fidelity: str = "exact",
    **given: Any,
) -> Any:  # fmt: skip
    """The model at a point, or at many.

    `given` are the traffic (rate, rate_pps, rate_bps, line_share, arrivals, size, size_bytes, link, flows) and costs of the
    host (application="2us", application_s=2e-6, ring=64). Arrays among them broadcast and give a `Curve`; else a `Record`.

    >>> predict("interrupt", rate="100kpps").engine
    'model'
    >>> predict("interrupt", rate_pps=[50e3, 100e3, 150e3])["throughput_pps"].shape
    (3,)
    """
    if arrays := _arrays(given):
        return _curve("model", host, scheme, traffic, given, arrays, fidelity, _USUAL, None)
    parts = _point(host, scheme, traffic, given, loaded=True)
    return Record(_core.predict(*parts, fidelity, "python: netcliff.predict"))


def simulate(
    scheme: Scheme | str, *, host: Host | str = "pentium4-2530mhz", traffic: Traffic | None = None, seed: int = 1,
    packets: int = 1_000_000, precision: str | float | None = None, figures: str = "throughput,latency,cpu",
    packets_at_most: int = 200_000_000, confidence: str | float = "95%", threads: int | None = None, **given: Any,
) -> Any:  # fmt: skip
    """A point in simulation, or many: as `predict`, with the options of ``netcliff simulate``.

    The answer depends on seed and effort only, not on `threads`.

    >>> record = simulate("interrupt", rate="100kpps", packets=20_000, seed=3)
    >>> low, high = record.interval("throughput_pps")
    >>> low <= record.throughput_pps <= high
    True
    """
    asked = _Simulation(seed, packets, precision, figures, packets_at_most, confidence)
    if arrays := _arrays(given):
        return _curve("sim", host, scheme, traffic, given, arrays, "exact", asked, threads)
    parts = _point(host, scheme, traffic, given, loaded=True)
    return Record(_core.simulate(*parts, asked, "python: netcliff.simulate", threads))


def cliff(
    scheme: Scheme | str, *, host: Host | str = "pentium4-2530mhz", traffic: Traffic | None = None, loss: float = 1e-4,
    fidelity: str = "exact", **given: Any,
) -> float:  # fmt: skip
    """The highest load (pps) at which no more than `loss` is lost, by the model.

    >>> 120e3 < cliff("interrupt") < 135e3
    True
    """
    parts = _point(host, scheme, traffic, given, loaded=False)
    text = _core.analyse(*parts, None, loss, False, fidelity, "python: netcliff.cliff")
    return float(json.loads(text)["cliff_pps"])


def sensitivities(
    scheme: Scheme | str, *, host: Host | str = "pentium4-2530mhz", rate: str | None = None, loss: float = 1e-4,
    fidelity: str = "exact", **given: Any,
) -> dict[str, Any]:  # fmt: skip
    """How cliff, latency and CPU move with each cost: what ``netcliff predict --sensitivities --json`` prints, as a dict.

    Latency and CPU are at `rate`, else at half the cliff.

    >>> sorted(one["cost"] for one in sensitivities("interrupt")["sensitivities"])[:2]
    ['interrupt', 'mask']
    """
    parts = _point(host, scheme, None, given, loaded=False)
    text = _core.analyse(*parts, rate, loss, True, fidelity, "python: netcliff.sensitivities")
    found: dict[str, Any] = json.loads(text)
    return found


_OBJECTIVES = {
    "latency": ("minimise p99", ["loss<=1e-4"]),
    "cpu": ("maximise available", ["loss<=1e-4"]),
    "throughput": ("maximise throughput", []),
}


def advise(
    *, host: Host | str = "pentium4-2530mhz", traffic: Traffic | None = None, objective: str = "latency",
    goal: str | None = None, subject_to: Sequence[str] | None = None, schemes: Sequence[Scheme | str] = (), seed: int = 1,
    packets_each: int = 50_000, packets_at_most: int = 200_000_000, **given: Any,
) -> dict[str, Any]:  # fmt: skip
    """The best scheme for an objective, as ``netcliff advise --json`` prints it.

    `goal` ("minimise p99", "maximise available") and `subject_to` (["loss<=1e-4"]) replace the objective. Without
    `schemes` all that a driver can set are tried; commands for a device are the command line's.
    """
    if goal is None and objective not in _OBJECTIVES:
        raise UsageError(f"objective = {objective!r}: expected one of {', '.join(_OBJECTIVES)}")
    usual = _OBJECTIVES.get(objective, ("", []))
    bounds = list(subject_to) if subject_to is not None else ([] if goal else list(usual[1]))
    base, _, load = _point(host, "ideal", traffic, given, loaded=True)
    chosen = [_scheme(scheme) for scheme in schemes]
    command = "python: netcliff.advise"
    text = _core.advise(base, load, goal or usual[0], bounds, chosen, seed, packets_each, packets_at_most, command)
    found: dict[str, Any] = json.loads(text)
    return found
