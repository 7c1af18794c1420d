#!/usr/bin/env python3
"""CPU time of each thread of netcliff and QEMU in half seconds, % of one CPU: threads.py SECONDS (beside `netcliff find --testbed vm:...`)."""

import os
import sys
import time

HZ = os.sysconf("SC_CLK_TCK")
STEP_S = 0.5


def sample():
    """{thread: (name, CPU time in ticks, CPU)}"""
    threads = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                command = file.read()
            if b"qemu-system" not in command and b"netcliff" not in command:
                continue
            for thread in os.listdir(f"/proc/{process}/task"):
                with open(f"/proc/{process}/task/{thread}/stat") as file:
                    text = file.read()
                fields = text[text.rindex(")") + 2 :].split()
                threads[thread] = (text[text.index("(") + 1 : text.rindex(")")], int(fields[11]) + int(fields[12]), fields[36])
        except OSError:
            pass
    return threads


before, end = sample(), time.time() + float(sys.argv[1])
while time.time() < end:
    time.sleep(STEP_S)
    now = sample()
    line = []
    for thread, (name, ticks, cpu) in now.items():
        share = 100 * (ticks - before.get(thread, (name, ticks, cpu))[1]) / HZ / STEP_S
        if share >= 5:
            line.append(f"{name}@{cpu}: {share:.0f} %")
    print(f"{time.time():.1f}", ", ".join(line), flush=True)
    before = now
