#!/usr/bin/env python3
"""Simulates interpretations of the sources of Table 1 of Salah, El-Badawi and Khalid (2007) that `--arrivals onoff`
does not offer. Their packets are written as captures, which netcliff simulates.

Usage: readings.py NETCLIFF [PACKETS] [REPLICATIONS] [LOAD,...]

b_OFF is as printed in the paper. For the last frame of an ON period: `whole` (it is sent, and the period is extended to
its end; as onoff:off=printed), `cut` (it is shortened to the rest of the period, or not sent if fewer than 64 bytes
remain) or `fit` (it is not sent if it does not fit). For frames of several sources at once: `serialise` (they wait for
the link; as onoff) or `drop` (a frame that finds the link busy is lost). Prints the mean of the replications with its
95 % Student interval, in us, and the resulting load of the link. REPLICATIONS is 3, 5 or 10.
"""
import heapq
import json
import math
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile

SOURCES, ALPHA_ON, ALPHA_OFF, MIN_ON_S, LINK_BPS, GAP_BYTES = 8, 1.3, 1.5, 512e-9, 1e9, 20
STUDENT = {2: 4.303, 4: 2.776, 9: 2.262}


def pareto(dice, alpha, least):
    return least * (1 - dice.random()) ** (-1 / alpha)


def frame_bytes(dice):
    """A frame size (bytes) from the mix mci1998-like."""
    place = dice.random() * 1000
    for weight, size in ((435, 64), (130, (65, 569)), (60, 570), (110, 594), (30, (595, 1517)), (235, 1518)):
        if place < weight:
            return dice.randint(*size) if isinstance(size, tuple) else size
        place -= weight
    return 1518


def on_period(dice, begin_s, last):
    """The frames (time, bytes) of an ON period that begins at `begin_s`, and the time at which it ends."""
    at_s, end_s, frames = begin_s, begin_s + pareto(dice, ALPHA_ON, MIN_ON_S), []
    while at_s < end_s:
        size = frame_bytes(dice)
        time_s = (size + GAP_BYTES) * 8 / LINK_BPS
        if at_s + time_s > end_s and last != "whole":
            size = int((end_s - at_s) * LINK_BPS / 8) - GAP_BYTES
            if last == "fit" or size < 64:
                break
            time_s = end_s - at_s
        frames.append((at_s, size))
        at_s += time_s
    return frames, max(at_s, end_s) if last != "whole" else at_s


def arrivals(load, seed, count, together, last):
    dice = random.Random(seed)
    share, mean_on_s = load / SOURCES, MIN_ON_S * ALPHA_ON / (ALPHA_ON - 1)
    min_off_s = mean_on_s * (1 - share) / share * (ALPHA_OFF - 1) / ALPHA_OFF

    def later(end_s):
        while True:
            frames, end_s = on_period(dice, end_s + pareto(dice, ALPHA_OFF, min_off_s), last)
            if frames:
                return frames, end_s

    periods = [later(0.0) for _ in range(SOURCES)]
    heap = [(frames[0][0], source, 0) for source, (frames, _) in enumerate(periods)]
    heapq.heapify(heap)
    sent, busy_s = [], 0.0
    while len(sent) < count:
        at_s, source, place = heapq.heappop(heap)
        size = periods[source][0][place][1]
        if together == "serialise" or at_s >= busy_s:
            begin_s = max(at_s, busy_s)
            sent.append((begin_s, size))
            busy_s = begin_s + (size + GAP_BYTES) * 8 / LINK_BPS
        place += 1
        if place == len(periods[source][0]):
            periods[source], place = later(periods[source][1]), 0
        heapq.heappush(heap, (periods[source][0][place][0], source, place))
    return sent


def capture(path, packets):
    data = bytearray(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 64, 1))
    for at_s, size in packets:
        at_ns = round(at_s * 1e9) + 10**9
        data += struct.pack("<IIII", at_ns // 10**9, at_ns % 10**9, 14, size - 4) + bytes(14)
    with open(path, "wb") as file:
        file.write(data)


def mean_us(program, path, packets, timer, seed):
    scheme = f"coalesce:usecs=50us,drops_interrupt=true,free_timer={timer}"
    command = [program, "simulate", "--host", "pentium4-2530mhz", "--scheme", scheme, "--arrivals", f"trace:{path},once"]
    command += ["--seed", str(seed), "--packets", str(2 * packets), "--json"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[0])
    mean = answer["outcome"]["latency_s"]["mean"]
    return 1e6 * (mean["value"] if isinstance(mean, dict) else mean)


def main():
    program = os.path.abspath(sys.argv[1])
    packets, replications = (int(text) for text in (sys.argv[2:4] + ["20000", "10"][len(sys.argv[2:4]) :]))
    loads = [float(text) for text in (sys.argv[4] if len(sys.argv) > 4 else "0.1,0.2,0.4,0.6,0.8").split(",")]
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "arrivals.pcap")
        for together in ("serialise", "drop"):
            for last in ("whole", "cut", "fit"):
                for load in loads:
                    means, real = {"false": [], "true": []}, []
                    for k in range(replications):
                        sent = arrivals(load, 1000 * k + int(load * 100) + 7, packets, together, last)
                        real.append(sum((size + GAP_BYTES) * 8 / LINK_BPS for _, size in sent) / sent[-1][0])
                        capture(path, sent)
                        for timer, values in means.items():
                            values.append(mean_us(program, path, packets, timer, k))
                    cells = []
                    for timer, values in means.items():
                        mean = statistics.mean(values)
                        half = STUDENT[replications - 1] * statistics.stdev(values) / math.sqrt(replications)
                        name = "free" if timer == "true" else "first packet"
                        cells.append(f"{name} {mean:.0f} [{mean - half:.0f}, {mean + half:.0f}]")
                    print(f"{together} {last} {load}: load {statistics.mean(real):.2f}, " + ", ".join(cells), flush=True)


if __name__ == "__main__":
    main()
