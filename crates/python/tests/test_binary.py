"""Digit for digit against the program: six schemes at as many loads as NETCLIFF_TEST_LOADS says (50 for the 300 points of a release)."""

from __future__ import annotations

import json
import os
import subprocess

import netcliff
import pytest

SCHEMES = ["ideal", "interrupt", "disable-enable", "polling:period=20us,quota=3", "napi:weight=64", "coalesce:usecs=50us"]
RATES = f"10kpps..300kpps:{os.environ.get('NETCLIFF_TEST_LOADS', '8')}"


def lines(binary: str, *arguments: str) -> list[dict[str, object]]:
    command = [binary, *arguments, "--host", "pentium4-2530mhz", "--rates", RATES, "--json"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in said.stdout.splitlines()]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_model_is_the_programs(binary: str, scheme: str) -> None:
    for theirs in lines(binary, "predict", "--scheme", scheme):
        rate = theirs["point"]["traffic"]["rate"]  # type: ignore[index]
        ours = netcliff.predict(scheme, rate=rate)
        assert (ours.data["point"], ours.outcome) == (theirs["point"], theirs["outcome"])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_simulator_is_the_programs(binary: str, scheme: str) -> None:
    asked = ("simulate", "--scheme", scheme, "--packets", "2000", "--seed", "7")
    for theirs in lines(binary, *asked):
        rate = theirs["point"]["traffic"]["rate"]  # type: ignore[index]
        ours = netcliff.simulate(scheme, rate=rate, packets=2000, seed=7)
        assert (ours.data["point"], ours.outcome) == (theirs["point"], theirs["outcome"])
