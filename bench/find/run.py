#!/usr/bin/env python3
"""Measures the repeatability of `netcliff find` and of its predictions on the netns testbed of this machine. Needs
root, two CPUs, and no other program running.

Usage: run.py OUTDIR [RUNS [PART...]]
  RUNS   number of runs of each kind (default 10)
  PART   quick: find --quick; full: find, and find --quick --idle as-configured, interleaved; check: the set-ups of
         --check, three runs each; none: no runs. Default: quick, full and check, in this order.
The parts take about 15, 75 and 45 minutes. Each run writes its raw finding to OUTDIR as JSON. A run whose finding
exists is not repeated, so that an interrupted series can be continued. At the end, a summary of all findings in OUTDIR
is printed: spread of the cliff, coverage of its intervals, errors of prediction. NETCLIFF names the program (default:
target/release/netcliff of this checkout).
"""
import datetime
import json
import math
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from series import NETCLIFF, append, find, is_made, keep, refuse, refuse_missing_program  # noqa: E402


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout


def one(out, name, *options):
    """Makes one run. A run that finds no cliff still prints its finding, so exit code 1 does not end the series."""
    if is_made(out, name):
        return
    code, took_s = find(out, name, options)
    keep(out, name, code, took_s)
    if not 0 <= code < 2:
        print((out / f"{name}.err").read_text(), file=sys.stderr)
        sys.exit(code)


def quick(out, runs):
    for n in range(1, runs + 1):
        one(out, f"quick-{n}", "--quick", "--seed", str(n))


def full(out, runs):
    for n in range(1, runs + 1):
        one(out, f"full-{n}", "--seed", str(n))
        one(out, f"as-configured-{n}", "--quick", "--idle", "as-configured", "--seed", str(n))


def check(out, _):
    set_ups = ["size=256B", "size=512B", "size=1024B", "size=1518B", "work=1us", "work=2us", "work=4us", "backlog=200", "budget=64"]
    for n in range(1, 4):
        one(out, f"check-{n}", "--seed", str(100 + n), *(word for set_up in set_ups for word in ("--check", set_up)))
        one(out, f"constant-{n}", "--arrivals", "constant", "--seed", str(200 + n))
        one(out, f"socket-{n}", "--socket-buffer", "256KiB", "--seed", str(300 + n))


def value(figure):
    """The value of a figure, which is a number, an object with its interval, or absent."""
    return figure.get("value") if isinstance(figure, dict) else figure


def load(directory, pattern):
    found = []
    for path in sorted(directory.glob(pattern)):
        text = path.read_text().strip()
        if text:
            found.append((path.stem, json.loads(text)))
        else:
            print(f"{path.stem}: no finding, see {path.stem}.err")
    return found


def cv(values):
    return 100 * statistics.stdev(values) / statistics.mean(values)


def by_speed(name, runs):
    """Prints the spread of the host's own cliff divided by the run's own speed figures, if each run has them."""
    cliffs = [(value(run["cliff_pps"].get("wire")), run.get("speed") or {}) for _, run in runs]
    for what, normed in (
        ("1 / service demand (CPU time a packet)", lambda cliff, speed: cliff * value(speed["demand_s"])),
        ("turns of the loop a second", lambda cliff, speed: cliff / value(speed["turns_per_s"])),
        ("1 / CPU time against the calibrated costs", lambda cliff, speed: cliff * value(speed["slowness"])),
        ("1 / protocol time of a packet", lambda cliff, speed: cliff * value(speed["packet_s"])),
    ):
        try:
            values = [normed(cliff, speed) for cliff, speed in cliffs if cliff is not None]
        except KeyError:
            continue
        if len(values) > 1:
            pooled = statistics.median(values)
            covered = sum(covers(run, normed, pooled) for _, run in runs)
            print(f"{name} cliff_pps over {what}: CV {cv(values):.1f} %, {covered} intervals, divided alike, cover the median")


def covers(run, normed, pooled):
    """Whether the interval of the host's own cliff, normalised by this run's speed, contains the median of all runs."""
    bounds, speed = (run.get("searches") or {}).get("own", {}), run.get("speed") or {}
    return normed(bounds.get("lower_pps", 0.0), speed) <= pooled <= normed(bounds.get("upper_pps", math.inf), speed)


def by_search(name, runs):
    """Like `by_speed`, but normalises the bounds of each search by the service demand of that search's trials, because
    the speed changes within a run too. The interval of a run reaches from the lowest lower bound of its searches to the
    highest upper bound, as `find` reports it for up to seven searches."""
    told = []
    for _, run in runs:
        searches = (run.get("searches") or {}).get("own", {}).get("searches", [])
        bounds = [
            (s["lower_pps"] * s["demand_s"], s["upper_pps"] * s["demand_s"])
            for s in searches
            if all(key in s for key in ("lower_pps", "upper_pps", "demand_s"))
        ]
        if bounds:
            middle = statistics.median(math.sqrt(low * high) for low, high in bounds)
            told.append((middle, min(low for low, _ in bounds), max(high for _, high in bounds)))
    if len(told) > 1:
        values = [middle for middle, _, _ in told]
        pooled = statistics.median(values)
        covered = sum(low <= pooled <= high for _, low, high in told)
        print(
            f"{name} cliff_pps over the speed of each search: {min(values):.3f} to {max(values):.3f} of the CPU, CV {cv(values):.1f} %, "
            f"{covered} intervals cover the median"
        )


def disturbances(name, runs):
    for cpu in ("host", "sender"):
        told = [pauses for _, run in runs if (pauses := (run.get("disturbance") or {}).get(cpu)) is not None]
        if told:
            longest = max(pauses.get("max_s", 0.0) for pauses in told)
            share = statistics.median(pauses["share"] for pauses in told)
            steal = statistics.median(pauses.get("steal_share", 0.0) for pauses in told)
            print(
                f"{name}: {cpu}'s CPU away {sum(pauses['count'] for pauses in told)} times in {len(told)} runs, median share {100 * share:.2f} % "
                f"(steal clock {100 * steal:.2f} %), longest {1e3 * longest:.1f} ms"
            )
    left_out = [(run.get("disturbance") or {}).get("left_out", 0.0) for _, run in runs]
    drift = [value((run.get("drift") or {}).get("share")) for _, run in runs if run.get("drift")]
    print(f"{name}: left out of the host's own cliff: median {100 * statistics.median(left_out):.1f} % of the slots, most {100 * max(left_out):.1f} %")
    if drift:
        print(f"{name}: drift of the speed over a run: {100 * min(drift):+.1f} to {100 * max(drift):+.1f} %")


def repeatability(name, runs, seconds):
    for key in ("cliff_pps", "cliff_experienced_pps"):
        cliffs = [value(run[key]["wire"]) for _, run in runs if run[key].get("wire") is not None]
        if len(cliffs) < 2:
            print(f"{name} {key}: {len(cliffs)} of {len(runs)} runs have one")
            continue
        pooled = statistics.median(cliffs)
        which = "own" if key == "cliff_pps" else "experienced"
        covered = 0
        for _, run in runs:
            bounds = (run.get("searches") or {}).get(which, {})
            covered += bounds.get("lower_pps", 0.0) <= pooled <= bounds.get("upper_pps", math.inf)
        print(
            f"{name} {key}: {len(cliffs)} of {len(runs)} runs, median {pooled / 1e3:.0f} kpps, "
            f"{min(cliffs) / 1e3:.0f} to {max(cliffs) / 1e3:.0f}, CV {cv(cliffs):.1f} %, {covered} intervals cover the median"
        )
    by_speed(name, runs)
    by_search(name, runs)
    disturbances(name, runs)
    contradictions = sum(len(run.get("contradictions", [])) for _, run in runs)
    void = sum(v["trials"] for _, run in runs for v in (run.get("searches") or {}).get("void", []))
    trials = sum((run.get("searches") or {}).get("trials", 0) for _, run in runs)
    taken = [seconds[stem] for stem, _ in runs if stem in seconds]
    print(f"{name}: {contradictions} contradictions named; {void} of {trials} trials void; wall time at most {max(taken, default=0)} s")


def prediction(checks, whole):
    errors, delivered, inside = [], [], [0, 0]
    setups = [(check["name"], check) for _, run in checks for check in run.get("checks", [])]
    setups += [(stem.rsplit("-", 1)[0], run) for stem, run in whole]
    for name, setup in setups:
        wire = value(setup["cliff_pps"].get("wire"))
        for engine in ("model", "sim"):
            figure = setup["cliff_pps"].get(engine)
            if wire and figure is not None:
                errors.append((abs(value(figure) / wire - 1), engine, name))
                if isinstance(figure, dict):
                    inside[1] += 1
                    inside[0] += figure["low"] <= wire <= figure["high"]
        for at in ("delivered_at_1_5_pps", "delivered_at_2_pps"):
            measured = value(setup.get(at, {}).get("wire"))
            for engine in ("model", "sim"):
                figure = value(setup.get(at, {}).get(engine))
                if measured and figure:
                    delivered.append((abs(figure / measured - 1), engine, name + " " + at))
    for title, found in (("cliff", errors), ("delivered past it", delivered)):
        for engine in ("model", "sim"):
            own = sorted(e for e in found if e[1] == engine)
            if own:
                print(
                    f"prediction of the {title} by {engine}: {len(own)} set-ups and runs, median error "
                    f"{100 * statistics.median(e[0] for e in own):.1f} %, worst {100 * own[-1][0]:.1f} % ({own[-1][2]})"
                )
    if inside[1]:
        print(f"{inside[0]} of {inside[1]} predictions with an interval hold the measured cliff")


def summarise(directory):
    kept = directory / "seconds.txt"
    lines = kept.read_text().splitlines() if kept.exists() else []
    seconds = {name: int(taken) for name, taken in (line.split() for line in lines)}
    for name, pattern in (
        ("find --quick", "quick-[0-9]*.json"),
        ("find", "full-*.json"),
        ("find --quick --idle as-configured", "as-configured-*.json"),
    ):
        runs = load(directory, pattern)
        if runs:
            repeatability(name, runs, seconds)
    prediction(load(directory, "check-*.json"), load(directory, "constant-*.json") + load(directory, "socket-*.json"))


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        refuse(__doc__)
    directory, runs, parts = pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "10", sys.argv[3:]
    if not runs.isdecimal():
        refuse(f'run.py: RUNS is "{runs}": expected a whole number')
    known = {"quick": quick, "full": full, "check": check, "none": lambda *_: None}
    for part in parts:
        if part not in known:
            refuse(f'run.py: PART is "{part}": expected quick, full, check or none')
    if parts != ["none"]:
        refuse_missing_program()
        directory.mkdir(parents=True, exist_ok=True)
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        append(directory / "machine.txt", f"{now}\n{output('uname', '-a')}{output('lscpu')}{output(NETCLIFF, '--version')}{output('uptime')}")
    for part in parts or ["quick", "full", "check"]:
        known[part](directory, int(runs))
    summarise(directory)


if __name__ == "__main__":
    main()
