#!/usr/bin/env python3
"""Compares `tune adapt --up 40kpps --down 30kpps` with interrupts alone and with polling alone (docs/how-to/adapt.md).

    run.py NETCLIFF [ROUNDS] [KPPS,KPPS,..]

It runs between two namespaces joined by a veth pair. The load is UDP in 64-byte frames from CPU 0 to CPU 1. At the same time, 1000 requests/s
measure the one-way latency, and a program of idle priority on CPU 1 measures the CPU time that is left. The three
methods take turns. Prints one line of JSON per measurement, then the medians. A measurement takes 10 s. Needs root, two
CPUs and a quiet machine."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

NETCLIFF = os.path.realpath(sys.argv[1])
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 4
LOADS = [int(kpps) * 1000 for kpps in (sys.argv[3] if len(sys.argv) > 3 else "10,38,90").split(",")]
HOWS = ["interrupt", "poll", "adapt"]
POLLING = {"gro_flush_timeout": 50_000, "napi_defer_hard_irqs": 2}
NEAR, FAR = f"ncad-a{os.getpid()}", f"ncad-b{os.getpid()}"


def inside(space, *words):
    return ["ip", "netns", "exec", space, *words]


def run(*words):
    subprocess.run(words, check=True)


def soak(seconds):
    """Counts per second of a loop that runs on CPU 1 at idle priority for `seconds`."""
    code = (
        "import os, time\nos.sched_setaffinity(0, {1}); os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n"
        f"end, count = time.monotonic() + {seconds}, 0\n"
        "while time.monotonic() < end: count += 1\nprint(count)"
    )
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) / seconds


def setting(polls):
    for name, value in POLLING.items():
        run(*inside(FAR, "sh", "-c", f"echo {value if polls else 0} >/sys/class/net/v1/{name}"))


def interrupts():
    rows = (line.split() for line in open("/proc/interrupts"))
    return sum(int(row[2]) for row in rows if row[0] in ("CAL:", "RES:", "LOC:"))


def measured(load, how, env, idle):
    setting(how == "poll")
    netcliff = lambda state, space, *words: subprocess.Popen(
        inside(space, NETCLIFF, *words), env=dict(os.environ, XDG_DATA_HOME=env, NETCLIFF_STATE_DIR=f"{env}/{state}"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    far = ["--to", "10.77.0.2", "--key", f"{env}/key", "--cpu", "0,1", "--repeats", "1", "--json"]
    adapting = None
    if how == "adapt":
        adapting = netcliff("adapt", FAR, "tune", "adapt", "--if", "v1", "--up", "40kpps", "--down", "30kpps", "--for", "6", "--json")
    rate = f"{load * 18 * 8 / 1e6:.4f}Mbit/s"
    stream = netcliff("stream", NEAR, "stream", "-u", "--block", "18B", "-b", rate, "--time", "5", *far)
    time.sleep(2.2)
    requests = netcliff("rr", NEAR, "rr", "-u", "--rate", "1k", "--time", "2", *far)
    before, began = interrupts(), time.monotonic()
    left = soak(2.4) / idle
    raised = (interrupts() - before) / (time.monotonic() - began)
    answer, why = requests.communicate(timeout=60)
    stream.communicate(timeout=60)
    switches = 0
    if adapting:
        events = [json.loads(line) for line in adapting.communicate(timeout=60)[0].splitlines()]
        switches = sum(event["event"] == "switch" for event in events)
    setting(False)
    if not answer:
        raise SystemExit(f"rr: {why}")
    p50_us = json.loads(answer)["one_way"]["delays"]["forth"]["p50_s"] * 1e6
    return {"load": load, "how": how, "p50_us": p50_us, "left": left, "interrupts": raised, "switches": switches}


def main():
    home = tempfile.TemporaryDirectory()
    env = home.name
    for state in "agent", "adapt", "stream", "rr":
        os.mkdir(f"{env}/{state}", 0o700)
    agent = None
    try:
        for space in NEAR, FAR:
            run("ip", "netns", "add", space)
        run("ip", "-n", NEAR, "link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", FAR)
        for space, device, address in (NEAR, "v0", "10.77.0.1/24"), (FAR, "v1", "10.77.0.2/24"):
            run("ip", "-n", space, "address", "add", address, "dev", device)
            run("ip", "-n", space, "link", "set", device, "up")
        run(*inside(NEAR, "ethtool", "-K", "v0", "tso", "off"))
        run(*inside(FAR, "ethtool", "-K", "v1", "gro", "on"))
        run(*inside(FAR, "sh", "-c", "echo 2 >/sys/class/net/v1/queues/rx-0/rps_cpus"))
        run(NETCLIFF, "agent", "--make-key", f"{env}/key")
        agent = subprocess.Popen(
            inside(FAR, NETCLIFF, "agent", "--key", f"{env}/key", "--listen", "10.77.0.2:9940"),
            env=dict(os.environ, NETCLIFF_STATE_DIR=f"{env}/agent"), stderr=subprocess.DEVNULL)
        time.sleep(1)
        idle, rows = soak(2), []
        for turn in range(ROUNDS):
            for load in LOADS:
                for place in range(3):
                    rows.append(measured(load, HOWS[(place + turn) % 3], env, idle))
                    print(json.dumps(rows[-1]), flush=True)
        base = statistics.median(row["left"] for row in rows if (row["load"], row["how"]) == (LOADS[0], "interrupt"))
        for load in LOADS:
            for how in HOWS:
                own = [row for row in rows if (row["load"], row["how"]) == (load, how)]
                median = lambda key: statistics.median(row[key] for row in own)
                print(f"{load / 1e3:g} kpps {how}: p50 {median('p50_us'):.1f} us, CPU left {median('left') / base:.2f}, "
                      f"{median('interrupts') / 1e3:.1f} k interrupts/s, {sum(row['switches'] for row in own)} switches")
    finally:
        if agent:
            agent.terminate()
            agent.wait()
        for space in NEAR, FAR:
            subprocess.run(["ip", "netns", "delete", space], check=False)
        home.cleanup()


main()
