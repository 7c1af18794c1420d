"""Where a packet host falls off its cliff: by model, in simulation, over sweeps.

>>> import netcliff
>>> netcliff.predict("interrupt", rate="100kpps").throughput_pps > 99e3
True

Quantities are texts with a unit ("120kpps", "2us", "64B") or numbers with the unit in the argument's name
(``rate_pps=120e3``, ``application_s=2e-6``). Arrays of numbers broadcast as NumPy's do.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._core import (
    HOST_KEYS,
    PRESETS,
    EngineError,
    Host,
    Scheme,
    StoreError,
    Traffic,
    UnsupportedError,
    UsageError,
    __version__,
)
from .compute import advise, cliff, predict, sensitivities, simulate
from .results import Curve, Record
from .store import Store

if TYPE_CHECKING:
    from .sweeps import Sweep, sweep

__all__ = [
    "HOST_KEYS", "PRESETS", "Curve", "EngineError", "Host", "Record", "Scheme", "Store", "StoreError", "Sweep", "Traffic",
    "UnsupportedError", "UsageError", "__version__", "advise", "cliff", "predict", "sensitivities", "simulate", "sweep",
]  # fmt: skip


_MODULES = ("dask", "hosts", "store", "sweeps")


def __getattr__(name: str) -> Any:
    """Loads sweeps and clusters when they are first used: `import netcliff` stays fast."""
    if name in ("sweep", "Sweep"):
        return getattr(importlib.import_module(".sweeps", __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'netcliff' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What the package offers, for tab completion."""
    return sorted({*__all__, *_MODULES})
