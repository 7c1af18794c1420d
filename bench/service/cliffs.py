#!/usr/bin/env python3
"""The cliff of a name server by netcliff with even gaps and by resperf, by turns: cliffs.py NETCLIFF COMMAND NAMES MANY LOSS ROUNDS. COMMAND starts the server in the
foreground, listening on 198.18.0.2; MANY is NAMES repeated for resperf. netcliff's cliff is that of `find --quick --service`. resperf's: the highest held
load of which the host loses at most LOSS in a second (the server's socket and the CPU's backlog), by bisection to 2 %, half of three trials a load;
generator on CPU 0, server on CPU 1."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

NETCLIFF, COMMAND, NAMES, MANY, LOSS, ROUNDS = sys.argv[1:]
PAIR = str(pathlib.Path(__file__).with_name("pair.sh"))
LOW, HIGH = 5e3, 160e3
STEP, WIDTH, RAMP_S, HELD_S = 1.1, 0.02, 1, 1


def by_netcliff():
    command = [NETCLIFF, "find", "--quick", "--service", COMMAND, "--request", f"dns:{NAMES}", "--arrivals", "constant", "--loss", LOSS, "--json"]
    run = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {0, 1}))
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    return lines[-1] if lines and "cliff_rps" in lines[-1] else run.stderr.strip().splitlines()[-1]


def counted(pid):
    """Datagrams that the server's namespace took and lost, packets that CPU 1's backlog dropped. (A program that reads them would take CPU time from the server.)"""
    keys, values = [line.split()[1:] for line in open(f"/proc/{pid}/net/snmp") if line.startswith("Udp:")]
    udp = dict(zip(keys, map(int, values)))
    backlog = [int(line.split()[1], 16) for line in open("/proc/net/softnet_stat")]
    return udp["InDatagrams"], udp["RcvbufErrors"], backlog[1]


def loses(pid, rate):
    command = f"exec taskset -c 0 ip netns exec ncd-snd resperf -s 198.18.0.2 -d {MANY} -m {rate:.0f} -r {RAMP_S} -c {HELD_S + 1} -C 16 -R -P /dev/null -i 0.2"
    process = subprocess.Popen(command, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(RAMP_S + 0.35)
    before = counted(pid)
    time.sleep(HELD_S)
    taken, full, dropped = (b - a for a, b in zip(before, counted(pid)))
    process.terminate()
    process.wait()
    if taken + full + dropped < 0.97 * rate * HELD_S:
        return None
    return (full + dropped) / (taken + full + dropped) > float(LOSS)


def fails(pid, rate):
    verdicts = [loses(pid, rate) for _ in range(2)]
    if verdicts[0] != verdicts[1]:
        verdicts.append(loses(pid, rate))
    return None if None in verdicts else sum(verdicts) * 2 > len(verdicts)


def by_resperf(near):
    subprocess.run([PAIR, "up"], check=True)
    service = subprocess.Popen(f"exec taskset -c 1 ip netns exec ncd-hut {COMMAND}", shell=True, stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        low, high, rate = LOW, HIGH, near
        while high / low > 1 + WIDTH:
            failed = fails(service.pid, rate)
            if failed is None:
                return f"resperf did not reach {rate:.0f}/s"
            low, high = (low, rate) if failed else (rate, high)
            if low == LOW:
                rate = high / STEP
            elif high == HIGH:
                rate = low * STEP
            else:
                rate = (low * high) ** 0.5
        return (low * high) ** 0.5
    finally:
        service.terminate()
        service.wait()
        subprocess.run([PAIR, "down"], check=True)


os.sched_setaffinity(0, {0})
rows = []
for number in range(1, int(ROUNDS) + 1):
    found = by_netcliff()
    if isinstance(found, str):
        print(f"{number}: netcliff: {found}", flush=True)
        continue
    cliff = found["cliff_rps"]
    resperf = by_resperf(cliff["value"])
    print(f"{number}: netcliff {cliff['value']:.0f} ({cliff.get('low', 0):.0f} to {cliff.get('high', 0):.0f}), resperf {resperf}", flush=True)
    rows.append((cliff["value"], None if isinstance(resperf, str) else resperf))
for name, values in zip(("netcliff", "resperf"), zip(*rows)):
    values = [value for value in values if value]
    if len(values) > 1:
        mean = statistics.mean(values)
        print(f"{name}: median {statistics.median(values):.0f}/s, coefficient of variation {100 * statistics.stdev(values) / mean:.1f} %")
ratios = [ours / theirs for ours, theirs in rows if theirs]
if ratios:
    print("netcliff over resperf:", " ".join(f"{ratio:.3f}" for ratio in ratios), f"median {statistics.median(ratios):.3f}")
