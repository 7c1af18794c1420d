#!/usr/bin/env python3
"""Compares the interrupt moderation of real drivers in guests of QEMU with simulation: the measurements of `netcliff
find --testbed vm:DRIVER` against the simulations with its calibration, for six values of rx-usecs. Needs root, two CPUs
or more, and no other program running.

Usage: run.py OUTDIR [RUNS [DRIVER...]]
  RUNS    runs of each driver (default 3; 0: only the summary)
  DRIVER  default: e1000e igb
Environment:
  NETCLIFF  default: target/release/netcliff of this checkout
  QEMU      default: qemu-system-x86_64; igb needs 8.0 or newer. QEMU_igb, QEMU_e1000e: for that driver only
  KERNEL    default: the newest in /boot
Each run writes its raw finding to OUTDIR as JSON. A run whose finding exists is not repeated, so that an interrupted
series can be continued. The summary is printed at the end and written to OUTDIR/summary.txt. The exit code is 1 if a
figure is outside its limit.

Limits, for the median over all drivers and runs and for each of the six rx-usecs: interrupts/s and packets per poll at
three loads within 15 % of the calibrated simulation, the cliff within 20 %. Errors are measured / simulated - 1.
"""

import contextlib
import datetime
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from series import NETCLIFF, append, find, is_made, keep, refuse, refuse_missing_program  # noqa: E402

QEMU = os.environ.get("QEMU") or "qemu-system-x86_64"

SHARES = [0.25, 0.5, 0.75]
FIGURES = ["interrupts_per_s", "packets_per_poll"]
LOADS_BAR, CLIFF_BAR = 0.15, 0.20


def value(figure):
    return figure["value"] if isinstance(figure, dict) else figure


def error(measured, simulated):
    measured, simulated = value(measured), value(simulated)
    return measured / simulated - 1 if measured is not None and simulated else None


def cliff(check):
    """The host's own cliff if it was measured, otherwise the cliff that includes all disturbances."""
    for key in ["cliff_pps", "cliff_experienced_pps"]:
        by = check.get(key) or {}
        if by.get("wire") is not None:
            return key, error(by["wire"], by.get("sim"))
    return None, None


def loads(check):
    """{(share, figure): error} for the three loads below the cliff."""
    below = check.get("below", [])
    measured = sorted((p for p in below if p["engine"] == "wire"), key=lambda p: p["load_pps"])
    found = {}
    top = max((p["load_pps"] for p in below), default=None)
    for point in measured:
        share = min(SHARES, key=lambda s: abs(point["load_pps"] / top * SHARES[-1] - s))
        sim = [p for p in below if p["engine"] == "sim" and abs(p["load_pps"] / point["load_pps"] - 1) < 1e-6]
        for figure in FIGURES if sim else []:
            found[share, figure] = error(point["outcome"].get(figure), sim[0]["outcome"].get(figure))
    return found


def text(err):
    return "   -   " if err is None else f"{100 * err:+6.1f}%"


def output(*command):
    """The output of a command, or the reason why it cannot run."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    except OSError as error:
        return f"{error}\n"


def one(out, driver, run):
    name = f"{driver}-{run}"
    if is_made(out, name):
        return
    # In a trial of 0.5 s, an emulated guest receives too few packets to show a loss of one in 10,000. One search per
    # cliff and three trials per load suffice: the speed of an emulated CPU differs from boot to boot, so that further
    # runs tell more than further searches within a run.
    options = ["--testbed", f"vm:{driver}", "--vm-qemu", os.environ.get(f"QEMU_{driver.replace('-', '_')}") or QEMU, "--quick",
               "--loss", "1e-3", "--trial", "500ms", "--searches", "1", "--repeats", "3", "--seed", str(run)]
    if os.environ.get("KERNEL"):
        options += ["--vm-kernel", os.environ["KERNEL"]]
    for usecs in (0, 10, 20, 50, 100, 250):
        options += ["--check", f"rx-usecs={usecs}"]
    code, took_s = find(out, name, options)
    part = out / f"{name}.json.part"
    # A run without a cliff still prints its finding, so exit code 1 does not end the series.
    if not part.stat().st_size:
        last = (out / f"{name}.err").read_text().splitlines()[-1:]
        print(f"run.py: {name}: no finding, exit code {code}: {''.join(last)}", file=sys.stderr)
        part.unlink()
        return
    keep(out, name, code, took_s)


def summarise(out):
    runs = {}
    for path in sorted(out.glob("*-[0-9]*.json")):
        driver, number = path.stem.rsplit("-", 1)
        runs[driver, int(number)] = json.loads(path.read_text())
    if not runs:
        sys.exit(f"run.py: no findings in {out}")
    errors, where = {}, {}
    for (driver, number), finding in runs.items():
        pauses = (finding.get("disturbance") or {}).get("host") or {}
        share = value(pauses.get("share_of_time", pauses.get("share")))
        paused = "" if share is None else f", host's CPU away {100 * share:.1f} % of the time"
        print(f"{driver} run {number}: {finding['provenance'].get('elapsed_s', 0):.0f} s, {len(finding['checks'])} checks{paused}")
        for missing in finding.get("missing", []):
            if missing["figure"].startswith("checks."):
                print(f"    {missing['figure']}: {missing['why'][:150]}")
        for check in finding["checks"]:
            key, err = cliff(check)
            errors.setdefault((check["name"], "cliff", None), {})[driver, number] = err
            where[key] = where.get(key, 0) + 1
            for (share, figure), err in loads(check).items():
                errors.setdefault((check["name"], figure, share), {})[driver, number] = err
    print(f"cliffs compared: {where} (cliff_experienced_pps: with all disturbances in)\n")
    print(f"{'set-up':14}{'figure':18}{'load':>6}  " + "".join(f"{d + ' ' + str(n):>12}" for d, n in sorted(runs)) + f"{'median':>9}  bar")
    tally, singles = {}, {}
    order = lambda item: (float(item[0][0].split("=")[-1]), item[0][1] != "cliff", item[0][1], item[0][2] or 0)
    for (name, figure, share), by in sorted(errors.items(), key=order):
        bar = CLIFF_BAR if figure == "cliff" else LOADS_BAR
        known = [err for err in by.values() if err is not None]
        median = statistics.median(known) if known else None
        passed = median is not None and abs(median) <= bar
        kind = "cliff" if figure == "cliff" else "loads"
        tally.setdefault(kind, []).append(passed)
        for run, err in by.items():
            singles.setdefault((run[0], kind), []).append(err is not None and abs(err) <= bar)
        cells = "".join(f"{text(by.get(run)):>12}" for run in sorted(runs))
        load = "" if share is None else f"{share:g}"
        print(f"{name:14}{figure:18}{load:>6}  {cells}{text(median):>9}  {'pass' if passed else 'MISS'} ({100 * bar:.0f} %)")
    print()
    for kind, results in tally.items():
        print(f"median over drivers and runs, {kind}: {sum(results)} of {len(results)} within the bar")
    for (driver, kind), results in sorted(singles.items()):
        print(f"single runs, {driver}, {kind}: {sum(results)} of {len(results)} within the bar")
    cliffs = [err for (_, figure, _), by in errors.items() if figure == "cliff" for err in by.values() if err is not None]
    if cliffs:
        print(f"cliff, median of all errors' sizes: {100 * statistics.median(map(abs, cliffs)):.1f} %")
    return all(all(results) for results in tally.values())


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        refuse(__doc__)
    out, runs, drivers = pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "3", sys.argv[3:] or ["e1000e", "igb"]
    if not runs.isdecimal():
        refuse(f'run.py: RUNS is "{runs}": expected a whole number')
    if int(runs):
        refuse_missing_program()
        out.mkdir(parents=True, exist_ok=True)
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        commands = [["uname", "-a"], ["lscpu"], [NETCLIFF, "--version"], [QEMU, "--version"], ["uptime"]]
        append(out / "machine.txt", f"{now}\n" + "".join(output(*command) for command in commands))
    for run in range(1, int(runs) + 1):
        for driver in drivers:
            one(out, driver, run)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        passed = summarise(out)
    (out / "summary.txt").write_text(said.getvalue())
    print(said.getvalue(), end="")
    return passed


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
