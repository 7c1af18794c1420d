#!/usr/bin/env python3
"""What the guest's CPU does while find measures: the thread of QEMU that emulates it, ten times a second.

threads.py sample OUT SECONDS   writes to OUT, for each guest that runs in that time: time, share of the time that it ran and waited for a CPU, voluntary
                                and involuntary switches since the last line (/proc/PID/task/TID/schedstat and status)
threads.py trials LOG SAMPLES   of the log of that find (NETCLIFF_LOG=debug) each trial of half a second, with the means of its samples, and
                                the 5 %, 50 % and 95 % quantiles of those over the trials
"""

import datetime
import pathlib
import re
import statistics
import sys
import time


def processors():
    for comm in pathlib.Path("/proc").glob("[0-9]*/task/[0-9]*/comm"):
        try:
            if re.match(r"CPU 0/(TCG|KVM)$", comm.read_text().strip()):
                if "netcliff,debug-threads" in (comm.parents[2] / "cmdline").read_text():
                    yield comm.parent
        except OSError:
            continue


def read(thread):
    ran, waited, _ = map(int, (thread / "schedstat").read_text().split())
    status = (thread / "status").read_text()
    switches = [int(number) for number in re.findall(r"voluntary_ctxt_switches:\s*(\d+)", status)]
    return time.time(), ran, waited, *switches


def sample(out, seconds):
    end, threads, before = time.time() + float(seconds), [], {}
    with open(out, "w", encoding="utf-8") as told:
        while time.time() < end:
            threads = [thread for thread in threads if thread.exists()] or list(processors())
            for thread in threads:
                try:
                    now = read(thread)
                except OSError:
                    continue
                if thread in before:
                    took, *grown = [after - earlier for after, earlier in zip(now, before[thread])]
                    told.write(f"{now[0]:.2f} {grown[0] / took / 1e9:.3f} {grown[1] / took / 1e9:.3f} {grown[2]} {grown[3]}\n")
                before[thread] = now
            time.sleep(0.1)


def us(told, key, by):
    return 1e6 * float(told[key]) / max(1, by)


def trials(log, samples):
    means = []
    rows = [tuple(map(float, line.split())) for line in open(samples, encoding="utf-8")]
    print("stage        load_pps  loss  packets/poll  softirq_us/packet  application_us/packet  handler_us  ran  waited  blocked  switches/s")
    for line in open(log, encoding="utf-8"):
        line = re.sub(r"\x1b?\[[0-9;]*m", "", line)
        if "trial stage=" not in line:
            continue
        told = dict(re.findall(r"(\w+)=(?:Some\()?([-\w.]+)", line.split("trial ", 1)[1]))
        packets, delivered = float(told["packets"]), float(told["delivered"])
        stamp = re.search(r"(\d{4}-\d\d-\d\dT[\d:.]+)Z", line)[1]
        at = datetime.datetime.fromisoformat(stamp + "+00:00").timestamp()
        # The host hears of a trial a little after its end.
        within = [row for row in rows if at - 0.75 < row[0] < at - 0.1]
        if not (packets and delivered and within):
            continue
        ran, waited, switches = (sum(row[n] for row in within) / len(within) for n in (1, 2, 3))
        means.append((ran, waited, 1 - ran - waited, 10 * switches))
        print(
            f"{told['stage']:11} {float(told['rate_pps']):9.0f}  {float(told['loss']):4.2f}  {packets / max(1, float(told['polls'])):12.1f}"
            f"  {us(told, 'protocol_s', packets):17.1f}  {us(told, 'application_s', delivered):21.1f}  {us(told, 'interrupt_s', float(told['interrupts'])):10.1f}"
            f"  {ran:3.2f}  {waited:6.2f}  {1 - ran - waited:7.2f}  {10 * switches:10.0f}"
        )
    for name, column in zip(["ran", "waited", "blocked", "switches/s"], zip(*means)):
        low, *_, high = statistics.quantiles(column, n=20)
        print(f"{name}: {low:.2f} {statistics.median(column):.2f} {high:.2f} over {len(column)} trials")


def main():
    commands = {"sample": sample, "trials": trials}
    if len(sys.argv) != 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])


main()
