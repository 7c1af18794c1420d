#!/usr/bin/env python3
"""runs.py COMMAND...: runs the command, prints its output, and then for each eBPF program that it loaded the number of
runs and the mean time of a run, as the kernel counts them (/proc/PID/fdinfo). Sets kernel.bpf_stats_enabled to 1 during
the run and restores it at the end. Needs root."""

import pathlib
import re
import subprocess
import sys
import time

SETTING = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")


def programs(pid):
    """{program id: (runs, time [ns])} of the eBPF programs that a process has open."""
    found = {}
    for descriptor in pathlib.Path(f"/proc/{pid}/fdinfo").glob("*"):
        try:
            told = dict(re.findall(r"^(\w+):\s*(\d+)$", descriptor.read_text(), re.MULTILINE))
        except OSError:
            continue
        if "run_cnt" in told:
            found[int(told["prog_id"])] = int(told["run_cnt"]), int(told["run_time_ns"])
    return found


def main():
    as_found, seen = SETTING.read_text(), {}
    SETTING.write_text("1")
    try:
        with subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True) as command:
            while command.poll() is None:
                seen.update(programs(command.pid))
                time.sleep(0.02)
            print(command.stdout.read())
    finally:
        SETTING.write_text(as_found)
    print("program,runs,ns a run")
    for number, (runs, run_ns) in sorted(seen.items()):
        print(f"{number},{runs},{run_ns / max(1, runs):.0f}")


main()
