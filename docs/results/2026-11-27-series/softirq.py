#!/usr/bin/env python3
"""What explains the softirq time of warm trials: softirq.py LOG...

LOG is standard error of `NETCLIFF_LOG=debug netcliff find --testbed vm:igb ... --check ...`, or the xz of it, of a program that logs `handlers_s`. Least squares of the time by the clock
over packets and polls, and over packets, polls and interrupts that hit a softirq (us each), with the root mean square of what is left of each trial's time; then the device's handlers by check
(us, deciles) and the share of the time in other interrupts. Needs NumPy.
"""

import pathlib
import statistics
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "2026-11-26-vm"))
from debug_log import trials

for path in sys.argv[1:]:
    rows, time, handlers, check = [], [], {}, "run"
    for stage, trial in trials(path):
        if stage is None:
            check = trial.split(":")[0]
            continue
        if not trial.get("handlers"):
            continue
        elapsed = trial["elapsed_s"]
        ticks = trial["interrupt_s"] - trial["handlers_s"]
        handlers.setdefault(check, []).append((1e6 * trial["handlers_s"] / trial["handlers"], ticks / elapsed))
        warm = trial["loss"] == 0 and trial["packets"] <= 32 * trial["polls"]
        if warm and trial["work_s"] == 0 and trial["frame_bytes"] == 64:
            clock = elapsed / (elapsed - ticks - trial["other_s"])
            rows.append([trial[name] / elapsed for name in ("packets", "polls", "softirq_interrupts")])
            time.append(clock * trial["protocol_s"] / elapsed)
    rows, time = np.array(rows), np.array(time)
    print(f"{path}: {len(time)} warm trials")
    for names, columns in (("packets, polls", [0, 1]), ("packets, polls, hits", [0, 1, 2])):
        costs = np.linalg.lstsq(rows[:, columns] / time[:, None], np.ones(len(time)), rcond=None)[0]
        left = rows[:, columns] @ costs / time - 1
        print(f"  {names}: {', '.join(f'{1e6 * cost:.1f}' for cost in costs)} us; {100 * np.sqrt((left**2).mean()):.1f} % left")
    for check, each in handlers.items():
        tenths = statistics.quantiles([us for us, _ in each], n=10)
        ticks = statistics.median(ticks for _, ticks in each)
        print(f"  {check}: handler {tenths[0]:.1f} to {tenths[-1]:.1f} us, other interrupts {100 * ticks:.1f} %")
