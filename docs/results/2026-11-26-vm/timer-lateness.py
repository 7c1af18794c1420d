#!/usr/bin/env python3
"""How late the timer of igb's gap fires in QEMU, by the length of the gap: timer-lateness.py LOG, a log of ./traced-qemu.

Late: from when the gap should have ended to the interrupt of its end. Next: from there to the next interrupt.
"""

import collections
import re
import statistics
import sys

LINE = re.compile(r"@(\d+\.\d+):(\w+) ?(.*)")
FEWEST = 1000


def quantiles(times):
    return "  ".join(f"{at:6.1f}" for at in [statistics.quantiles(times, n=20)[place] for place in (0, 4, 9, 14, 18)])


late, following = collections.defaultdict(list), collections.defaultdict(list)
begun, ended = {}, None
with open(sys.argv[1]) as log:
    for at_us, event, rest in (match.groups() for match in map(LINE.search, log) if match):
        at_us = float(at_us) * 1e6
        if event == "e1000e_irq_rearm_timer":
            register, gap_ns = re.search(r"0x([0-9a-f]+), delay (\d+)", rest).groups()
            if ended and ended[0] == register:
                following[int(gap_ns)].append(at_us - ended[1])
            begun[(int(register, 16) - 0x1680) // 4] = (register, at_us, int(gap_ns))
            ended = None
        elif event == "e1000e_irq_msix_notify_postponed_vec":
            vector = int(re.search(r"\[(\d+)\]", rest)[1])
            if vector in begun:
                register, from_us, gap_ns = begun.pop(vector)
                late[gap_ns].append(at_us - from_us - gap_ns / 1e3)
                ended = (register, at_us)

print("gap (us)    times    late (us): 5 %, 25 %, 50 %, 75 %, 95 %           next (us): the same")
for gap_ns, times in sorted(late.items()):
    if len(times) >= FEWEST:
        print(f"{gap_ns / 1e3:8.1f} {len(times):8}    {quantiles(times)}    {quantiles(following[gap_ns])}")
