#!/usr/bin/env python3
"""What an interrupt takes from a poll and from the application that it hits, beyond its handler, and which it hits, by the log of a find: hits.py LOG

LOG is standard error of `NETCLIFF_LOG=debug netcliff find --testbed vm:igb ... --check ...`, or the xz of it. One line a set-up, in the order of the run:
medians over its trials with the quartiles.
"""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from debug_log import trials

FEWEST = 50  # hits of a trial that tell something


def spread(values):
    if len(values) < 2:
        return "   -   "
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:6.1f} ({low:.1f} to {high:.1f})"


setups = [("as the driver sets it", [])]
for stage, told in trials(sys.argv[1]):
    if stage is None:
        setups.append((told, []))
    else:
        setups[-1][1].append(told)
print("set-up, trials; us beyond the handler from a poll (until its first packet, hit or not) and from the application (1 ms of work a packet); us a handler;")
print("interrupts that hit softirqs and the application, % of all, in trials that lost less than 1 %")
for name, all_trials in setups:
    polls = []
    for t in all_trials:
        if t["look_hits"] >= FEWEST:
            own_s = (t["look_s"] - t["hit_look_s"]) / (t["looks"] - t["hit_looks"])
            polls.append(1e6 * (t["hit_look_s"] - t["hit_looks"] * own_s) / t["look_hits"])
    blocked = [t for t in all_trials if t["work_s"] > 5e-4 and t["undisturbed_work_s"] and t["busy_interrupts"]]
    application = [1e6 * (t["application_s"] - t["undisturbed_work_s"] * t["delivered"]) / t["busy_interrupts"] for t in blocked]
    usual = [t for t in all_trials if t["work_s"] == 0 and t["loss"] < 0.01 and t["interrupts"]]
    handler = [1e6 * t["interrupt_s"] / t["interrupts"] for t in usual]
    share = lambda key: [100 * t[key] / t["interrupts"] for t in usual]
    print(f"{name:24} {len(all_trials):3}: polls {spread(polls)}, application {spread(application)}, handler {spread(handler)}, "
          f"softirqs {spread(share('softirq_interrupts'))} %, application {spread(share('busy_interrupts'))} %")
