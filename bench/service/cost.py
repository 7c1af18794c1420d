#!/usr/bin/env python3
"""Measures the CPU time that a request costs nsd on CPU 1, for several generators on CPU 0 that take turns.

    cost.py ASK TRIALS NAMES MANY RATE ROUNDS

Run it after `pair.sh up` and `taskset -c 1 ip netns exec ncd-hut nsd -d -c nsd.conf`. ASK is the compiled ask.c, TRIALS
the example `trials` of netcliff-service, and MANY the file NAMES repeated, for resperf."""

import statistics
import subprocess
import sys
import time

ASK, TRIALS, NAMES, MANY, RATE, ROUNDS = sys.argv[1:]
INSIDE = "exec taskset -c 0 ip netns exec ncd-snd "
PLAIN = f"{INSIDE}{ASK} 198.18.0.2 53 {NAMES} 2 {RATE} "
GENERATORS = {
    "base": PLAIN,
    "even gaps": PLAIN + "gaps=even",
    "single sends": PLAIN + "single=1",
    "next port each": PLAIN + "turn=1",
    "all three": PLAIN + "gaps=even single=1 turn=1",
    "all three, single reads": PLAIN + "gaps=even single=1 turn=1 batch=1 read=1",
    "netcliff": f"{INSIDE}{TRIALS} 198.18.0.2:53 dns:{NAMES} 0 2 {RATE}",
    "netcliff, even gaps": f"{INSIDE}{TRIALS} 198.18.0.2:53 dns:{NAMES} 0 2 {RATE}:constant",
    "resperf": f"{INSIDE}resperf -s 198.18.0.2 -d {MANY} -m {RATE} -r 1 -c 2 -C 16 -R -P /dev/null -i 0.2",
}


def seen():
    """Time (s), idle ticks and all ticks of CPU 1, interrupts that other CPUs sent to it, and datagrams that reached
    sockets in the server's namespace."""
    ticks = next(line for line in open("/proc/stat") if line.startswith("cpu1 "))
    ticks = [int(word) for word in ticks.split()[1:9]]
    sent = [line.split() for line in open("/proc/interrupts") if line.split()[0] in ("RES:", "CAL:")]
    snmp = subprocess.run(["ip", "netns", "exec", "ncd-hut", "cat", "/proc/net/snmp"], capture_output=True, text=True, check=True)
    udp = [line.split() for line in snmp.stdout.splitlines() if line.startswith("Udp:")][1]
    return time.monotonic(), ticks[3] + ticks[4], sum(ticks), sum(int(line[2]) for line in sent), int(udp[1])


rows = {name: [] for name in GENERATORS}
for _ in range(int(ROUNDS)):
    for name, command in GENERATORS.items():
        process = subprocess.Popen(command, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Start after resperf's ramp.
        time.sleep(1.35 if name == "resperf" else 0.35)
        before = seen()
        time.sleep(1.3)
        spent_s, idle, ticks, interrupts, requests = (b - a for a, b in zip(before, seen()))
        # resperf would wait for answers for another 30 s.
        process.terminate()
        process.wait()
        requests = max(1, requests)
        rows[name].append(((1 - idle / ticks) * spent_s / requests * 1e6, interrupts / requests, requests / spent_s))
for name, turns in rows.items():
    cost, interrupts, rate = (statistics.median(column) for column in zip(*turns))
    each = " ".join(f"{turn[0]:.2f}" for turn in turns)
    print(f"{name:24} {rate:7.0f}/s {cost:6.2f} us a request ({each}), {interrupts:.2f} interrupts a request")
