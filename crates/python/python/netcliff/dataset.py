"""A sweep as an `xarray.Dataset`: what varies becomes dimensions, figures become variables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from . import _core
from .results import MEASURES
from .sweeps import MEASURED

if TYPE_CHECKING:
    from .sweeps import Sweep

#: Coordinates of every point beside those of its host.
NAMES = ("engine", "scheme", "arrivals", "size", "flows", "rate")


def of(sweep: Sweep) -> xr.Dataset:
    """The Dataset: dimensions in the order engine, scheme, arrivals, size, flows, costs of the host, rate."""
    tasks = [sweep.plan.task(task) for task in range(len(sweep.plan))]
    values = {name: [task[name] for task in tasks] for name in NAMES}
    hosts = {key: [task["host"][key] for task in tasks] for key in tasks[0]["host"]} if tasks else {}
    values.update({f"host_{key}": each for key, each in hosts.items() if _several(each)})
    dims = [name for name in values if _several(values[name]) and name != "rate"] + ["rate"]
    axes = {name: list(dict.fromkeys(values[name])) for name in dims}
    axes["rate"].sort()
    places = [tuple(axes[name].index(values[name][task]) for name in dims) for task in range(len(tasks))]
    shape = tuple(len(axes[name]) for name in dims)
    if len(set(places)) < len(tasks) or int(np.prod(shape)) > 4 * len(tasks):
        # Not a product of its coordinates: one point after the other.
        dims, places, shape = ["point"], [(task,) for task in range(len(tasks))], (len(tasks),)
        coords: dict[str, Any] = {name: ("point", each) for name, each in values.items() if _several(each) or name == "rate"}
    else:
        coords = dict(axes)
    coords.update({name: each[0] for name, each in values.items() if name not in coords and each and each[0] != ""})
    about_hosts = _measured_on(sweep, dims, places, shape)
    data = xr.Dataset(about_hosts | _variables(sweep, dims, places, shape), coords=coords, attrs=_provenance(sweep))
    for name in data.coords:
        data[name].attrs["units"] = _unit(str(name), tasks)
        if data[name].attrs["units"] == "":
            del data[name].attrs["units"]
    return data


def _several(values: list[Any]) -> bool:
    return len(set(values)) > 1


def _unit(name: str, tasks: list[dict[str, Any]]) -> str:
    if name == "rate":
        return str(tasks[0]["rate_unit"]) if tasks else "1/s"
    key = name.removeprefix("host_")
    if key == name or key in _core.HOST_TEXT_KEYS:
        return ""
    return "1" if key in _core.HOST_COUNT_KEYS else "s"


def _variables(sweep: Sweep, dims: list[str], places: list[tuple[int, ...]], shape: tuple[int, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def put(name: str, place: tuple[int, ...], value: float) -> None:
        if name not in found:
            found[name] = np.full(shape, np.nan)
        found[name][place] = value

    for task, text in sweep.texts.items():
        for key, value, low, high in _core.figures(text):
            put(key, places[task], value)
            if low == low:
                put(f"{key}_low", places[task], low)
                put(f"{key}_high", places[task], high)
    return {name: (dims, found[name], _attributes(name)) for name in sorted(found, key=_order)}


def _measured_on(
    sweep: Sweep, dims: list[str], places: list[tuple[int, ...]], shape: tuple[int, ...]
) -> dict[str, Any]:
    """Which host measured each point, where hosts did: measurements of two hosts differ."""
    hosts = np.full(shape, "", dtype=object)
    for task, text in sweep.texts.items():
        if sweep.plan.task(task)["engine"] == MEASURED:
            hosts[places[task]] = json.loads(text)["provenance"]["settings"].get("measured_on", "")
    return {"measured_on": (dims, hosts.astype(str))} if (hosts != "").any() else {}


def _base(name: str) -> tuple[str, str]:
    for end in ("low", "high"):
        if name not in MEASURES and name.endswith(f"_{end}"):
            return name.removesuffix(f"_{end}"), f", {end} end of the interval"
    return name, ""


def _order(name: str) -> tuple[int, str]:
    return list(MEASURES).index(_base(name)[0]), name


def _attributes(name: str) -> dict[str, str]:
    key, end = _base(name)
    long_name, unit = MEASURES[key]
    return {"units": unit, "long_name": long_name + end}


def _provenance(sweep: Sweep) -> dict[str, Any]:
    """Where it comes from; nothing here differs between two runs of the same plan."""
    # One record of each engine: the others of it have the same settings.
    firsts = {sweep.plan.task(task)["engine"]: task for task in sorted(sweep.texts, reverse=True)}
    settings: dict[str, str] = {}
    for task in firsts.values():
        settings.update(json.loads(sweep.texts[task])["provenance"]["settings"])
    about: dict[str, Any] = {
        "title": sweep.plan.title,
        "experiment": sweep.plan.id,
        "seed": sweep.plan.seed,
        "netcliff_version": _core.__version__,
        "points": len(sweep.plan),
    }
    about.update({key: settings[key] for key in ("fidelity", "packets", "precision", "packets_at_most") if key in settings})
    if sweep.missing:
        about["missing"] = [f"{state}: {why}" for _, state, why in sweep.missing]
    return about
