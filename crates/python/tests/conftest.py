"""What tests share. NETCLIFF_BINARY names the program to compare with."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

# The model declines the last scheme.
EXPERIMENT = """
title = "a small sweep"
engines = ["model", "sim"]
schemes = ["interrupt", "napi:weight=64", "disable-enable", "napi:threaded=true"]
packets = 5000
[host]
preset = "pentium4-2530mhz"
vary = ["application=1us,2us"]
[traffic]
rates = "20kpps..200kpps:4"
"""


#: All points of it, and those that have an answer.
POINTS, ANSWERED = 64, 56


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(EXPERIMENT)
    return path


@pytest.fixture(scope="session")
def binary() -> str:
    found = os.environ.get("NETCLIFF_BINARY") or shutil.which("netcliff")
    if not found:
        pytest.skip("NETCLIFF_BINARY is not set and netcliff is not on PATH")
    return found
