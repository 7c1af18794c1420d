#!/usr/bin/env python3
"""At which speed an emulated guest ran in each trial of a find, and what that makes of a calibration: states.py LOG... (numpy and scipy)

LOG is standard error of `NETCLIFF_LOG=debug netcliff find --testbed vm:igb ... --check ...`, or the xz of it. Of each log: costs (us) fitted to the calibration's warm
trials as they are and each at the speed that its interrupt handlers show, with the root mean square of the relative residuals; then its trials by kind.
"""

import pathlib
import sys

import numpy as np
from scipy.optimize import nnls

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from debug_log import trials


def handler_s(trial):
    return trial["interrupt_s"] / trial["interrupts"]


def is_warm(trial):
    return trial["delivered"] >= 0.95 * trial["packets"] and trial["packets"] <= 32 * trial["polls"]


def fit(rows, times):
    rows, times = np.array(rows), np.array(times)
    costs, _ = nnls(rows / times[:, None], np.ones_like(times))
    return costs, np.sqrt(np.mean((rows @ costs / times - 1) ** 2))


def costs(calibration):
    usual = [t for t in calibration if t["work_s"] == 0 and t["frame_bytes"] == 64 and is_warm(t)]
    handler = np.median([handler_s(t) for t in usual])
    looked = [t for t in calibration if t["looks"] > t["hit_looks"]]
    own = lambda t: (t["look_s"] - t["hit_look_s"]) / (t["looks"] - t["hit_looks"])
    taken = sum(t["hit_look_s"] - t["hit_looks"] * own(t) for t in looked) / sum(t["look_hits"] for t in looked)
    blocked = [t for t in calibration if t["work_s"] > 0 and t["undisturbed_work_s"]]
    hit = lambda t: (t["application_s"] - t["undisturbed_work_s"] * t["delivered"]) / t["busy_interrupts"]
    print(f"  {len(usual)} warm trials, handler {handler * 1e6:.1f}, from a poll {taken * 1e6:.1f}")
    for name, slow in (("as they are", lambda t: 1.0), ("at one speed", lambda t: handler_s(t) / handler)):
        hidden = np.median([hit(t) / slow(t) for t in blocked]) if blocked else 0.0
        softirq, left = fit([[t["packets"], t["polls"], t["wakeups"]] for t in usual],
                            [t["protocol_s"] / slow(t) - taken * t["softirq_interrupts"] for t in usual])
        reading, unread = fit([[t["delivered"], t["wakeups"]] for t in usual],
                              [t["application_s"] / slow(t) - hidden * t["busy_interrupts"] for t in usual])
        packet, poll, wakeup = softirq * 1e6
        print(f"  {name:12}: packet {packet:5.2f}, poll {poll:5.1f}, wake-up {wakeup:5.1f} ({left:.3f}); "
              f"application {reading[0] * 1e6:5.2f}, switch {reading[1] * 1e6:5.1f} ({unread:.3f}); from the application {hidden * 1e6:.1f}")


def kinds(every):
    usual = [t for _, t in every if t["work_s"] == 0 and t["frame_bytes"] == 64]
    of = {"polls of 60 and more": [t for t in usual if t["packets"] >= 60 * t["polls"]], "warm, CPU left": [t for t in usual if is_warm(t) and t["idle_s"] > 0.05 * t["elapsed_s"]]}
    for name, group in of.items():
        values = [1e6 * handler_s(t) for t in group], [1e6 * t["protocol_s"] / t["packets"] for t in group], [1e6 * t["application_s"] / t["delivered"] for t in group]
        handler, softirq, reading = (" to ".join(f"{q:.1f}" for q in np.quantile(v, [0.1, 0.9])) for v in values)
        print(f"  {name}: {len(group)} trials; handler {handler}, softirq a packet {softirq}, application a packet {reading} us (deciles)")


for path in sys.argv[1:]:
    every = [(stage, t) for stage, t in trials(path) if stage and t.get("packets") and t.get("interrupts")]
    print(path)
    costs([t for stage, t in every if stage == "Calibration"])
    kinds(every)
