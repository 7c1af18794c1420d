#!/usr/bin/env python3
"""Trials of a log, a line each: trials.py LOG [STAGE]

LOG is as for softirq.py; STAGE leaves the other stages out. Check, stage, load (pps), loss, CPU that was idle, time of a device's handler (us); of trials with 1 ms of work a packet also what an
interrupt adds to the application it hits (us, 5 us for reading a packet).
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "2026-11-26-vm"))
from debug_log import trials

check, only = "run", sys.argv[2] if len(sys.argv) > 2 else None
for stage, trial in trials(sys.argv[1]):
    if stage is None:
        check = trial.split(":")[0]
    elif trial.get("handlers") and only in (None, stage):
        elapsed, handler_us = trial["elapsed_s"], 1e6 * trial["handlers_s"] / trial["handlers"]
        line = f"{check} {stage} {trial['rate_pps']:.0f}: loss {trial['loss']:.3f}, idle {trial['idle_s'] / elapsed:.3f}, handler {handler_us:.1f}"
        if trial["work_s"] > 0 and trial["undisturbed_work_s"] and trial["busy_interrupts"]:
            reading_s = (trial["undisturbed_work_s"] + 5e-6) * trial["delivered"]
            line += f", added {1e6 * (trial['application_s'] - reading_s) / trial['busy_interrupts']:.0f}"
        print(line)
