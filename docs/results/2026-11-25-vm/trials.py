#!/usr/bin/env python3
"""Trials of a guest from the log of a find (NETCLIFF_LOG=debug): what packets, polls and interrupts took in each, and over all that lost next to
nothing the costs by least squares with the spread of what they predict over what was measured.

Usage: trials.py LOG [STAGE]   STAGE: Calibration, Search, Sweep or Idle; without one all. Needs NumPy.
"""

import itertools
import re
import sys

import numpy as np

LOST = 0.01
HEADER = "stage        load_pps  loss  packets/poll  wake-ups/packet  softirq_us/packet  application_us/packet  handler_us/interrupt"


def trials(path):
    with open(path, encoding="utf-8") as log:
        for line in log:
            line = re.sub(r"\x1b?\[[0-9;]*m", "", line)
            if "trial stage=" not in line:
                continue
            pairs = re.findall(r"(\w+)=(?:Some\()?([-\w.]+)", line.split("trial ", 1)[1])
            trial = {key: float(text) if re.match(r"-?[\d.]+(e-?\d+)?$", text) else text for key, text in pairs}
            if trial["packets"] > 0 and trial["delivered"] > 0:
                yield trial


def row(t):
    packets, interrupts = t["packets"], max(1, t["interrupts"])
    return (
        f"{t['stage']:12} {t['rate_pps']:8.0f}  {t['loss']:4.2f}  {packets / max(1, t['polls']):12.1f}  {t['wakeups'] / packets:15.2f}  "
        f"{1e6 * t['protocol_s'] / packets:17.1f}  {1e6 * t['application_s'] / t['delivered']:21.1f}  {1e6 * t['interrupt_s'] / interrupts:20.1f}"
    )


def non_negative(rows, weight):
    """The best fit of 1 by columns none of which is negative: of three columns by trying every set."""
    best, least = np.zeros(rows.shape[1]), np.inf
    for size in range(1, rows.shape[1] + 1):
        for columns in map(list, itertools.combinations(range(rows.shape[1]), size)):
            found = np.linalg.lstsq(rows[:, columns] * weight[:, None], weight, rcond=None)[0]
            rest = np.sum((weight * (rows[:, columns] @ found - 1)) ** 2)
            if (found >= 0).all() and rest < least:
                best, least = np.zeros(rows.shape[1]), rest
                best[columns] = found
    return best


def costs(chosen, time, counts):
    """Costs [us] and what they predict over what was measured, Huber's weights as in crates/lab/src/stats/least_squares.rs."""
    rows = np.array([[t[count] / t[time] for count in counts] for t in chosen])
    weight = np.ones(len(chosen))
    for _ in range(11):
        found = non_negative(rows, weight)
        far = np.abs(rows @ found - 1)
        weight = np.sqrt(np.minimum(1, 1.345 * 1.4826 * np.median(far) / np.maximum(far, 1e-12)))
    spread = np.percentile(rows @ found, [10, 50, 90]).round(2)
    words = ", ".join(f"{count} {1e6 * cost:.1f}" for count, cost in zip(counts, found))
    return f"{time}: {words} us; predicted over measured {spread[0]}, {spread[1]}, {spread[2]} (10 %, median, 90 %)"


def main():
    stage = sys.argv[2] if len(sys.argv) > 2 else None
    all_of_it = [t for t in trials(sys.argv[1]) if stage in (None, t["stage"])]
    print(HEADER)
    for trial in all_of_it:
        print(row(trial))
    chosen = [t for t in all_of_it if t["loss"] < LOST and t["work_s"] == 0 and t["frame_bytes"] == 64]
    print(f"\n{len(chosen)} trials of 64-byte frames that lost less than {LOST:.0%}:")
    print(costs(chosen, "protocol_s", ["packets", "polls", "wakeups"]))
    print(costs(chosen, "application_s", ["delivered", "wakeups", "busy_interrupts"]))


main()
