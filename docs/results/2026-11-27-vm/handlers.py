#!/usr/bin/env python3
"""Time in all hard interrupts over those of devices and other CPUs (us), by check: handlers.py LOG...

LOG is standard error of `NETCLIFF_LOG=debug netcliff find --testbed vm:igb ... --check ...`, or the xz of it. Medians over trials without loss whose polls had 32 packets or
fewer, with interrupts/s in brackets; the line through these trials' time a second (ms) by interrupts a second; then the lowest and highest of all trials with 60
of them or fewer.
"""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "2026-11-26-vm"))
from debug_log import trials

for path in sys.argv[1:]:
    name, by_check, seldom = "run", {}, []
    for stage, trial in trials(path):
        if stage is None:
            name = trial.split(":")[0]
        elif trial.get("interrupts"):
            each_us = 1e6 * trial["interrupt_s"] / trial["interrupts"]
            if trial["interrupts"] <= 60:
                seldom.append(each_us)
            if trial["loss"] == 0 and trial["packets"] <= 32 * trial["polls"]:
                by_check.setdefault(name, []).append((each_us, trial["interrupts"] / trial["elapsed_s"]))
    medians = {name: [statistics.median(of) for of in zip(*each)] for name, each in by_check.items()}
    print(path)
    print("  " + ", ".join(f"{name} {us:.1f} ({per_s:.0f}/s)" for name, (us, per_s) in medians.items()))
    each = [one for of in by_check.values() for one in of]
    slope_us, others = statistics.linear_regression([per_s for _, per_s in each], [us * per_s for us, per_s in each])
    print(f"  {others / 1e3:.0f} ms a second, and {slope_us:.1f} us an interrupt")
    if seldom:
        print(f"  60 or fewer: {len(seldom)} trials, {min(seldom):.0f} to {max(seldom):.0f}")
