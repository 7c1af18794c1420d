#!/usr/bin/env python3
"""What an interrupt takes from a poll and from the application that it hits, beyond its handler, and which it hits, by the log of a find: hits.py LOG

LOG is standard error of `NETCLIFF_LOG=debug netcliff find --testbed vm:igb ... --check ...`, or the xz of it. One line a set-up, in the order of the run:
medians over its trials with the quartiles.
"""

import lzma
import re
import statistics
import sys

FEWEST = 50  # hits of a trial that tell something


def trials(path):
    opened = lzma.open(path, "rt") if path.endswith(".xz") else open(path)
    with opened as log:
        for line in log:
            line = re.sub(r"\x1b?\[[\d;]*m", "", line).replace("\x1b", "")
            if "recorder" not in line or " trial " not in line:
                if "checking " in line:
                    yield line.split("checking ")[1].strip(), None
                continue
            fields = dict(re.findall(r"(\w+)=(\[[^\]]*\]|\S+)", line))
            numbers = {k: float(v) for k, v in fields.items() if re.fullmatch(r"-?[\d.]+(e-?\d+)?", v)}
            found = re.search(r"undisturbed_work_s=Some\(([\d.e-]+)\)", line) or re.search(r"undisturbed_work_s=([\d.e-]+)", line)
            numbers["undisturbed_work_s"] = float(found[1]) if found else None
            if numbers.get("elapsed_s"):
                yield None, numbers


def spread(values):
    if len(values) < 2:
        return "   -   "
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:6.1f} ({low:.1f} to {high:.1f})"


setups = [("as the driver sets it", [])]
for name, trial in trials(sys.argv[1]):
    if name:
        setups.append((name, []))
    else:
        setups[-1][1].append(trial)
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
