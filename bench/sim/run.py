"""All contenders in interleaved rounds, each pinned to one core: medians with min..max, a CPU second and as shares of the
scalar C Lindley recursion of the same round. `run.py [ROUNDS [SCALE]]`, SCALE a factor on the packets; paths: NETCLIFF_TARGET (cargo's
target directory), NEXOSIM_TARGET, PYTHON (with simpy and ciw). Build everything first: see bench/README.md."""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
TARGET = os.environ.get("NETCLIFF_TARGET", os.path.join(ROOT, "target"))
NEXOSIM = os.environ.get("NEXOSIM_TARGET", os.path.join(HERE, "nexosim", "target"))
PYTHON = os.environ.get("PYTHON", sys.executable)
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
SCALE = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0


def compile_c(directory):
    def build(name, source, *flags):
        out = os.path.join(directory, name)
        subprocess.run(["gcc", "-O3", "-march=native", *flags, os.path.join(HERE, source), "-o", out, "-lm"], check=True)
        return out

    fast = ["-ffast-math", "-mprefer-vector-width=512"]
    return {
        "floor": build("lindley", "lindley.c"),
        "fast": build("lindley-fast", "lindley.c", "-ffast-math"),
        "wide": build("lindley-wide", "lindley.c", "-DWIDE", *fast),
        "heap": build("heap", "heap.c"),
    }


def measure(command, packets):
    """Million packets a CPU second: what else runs on the machine counts less than by the wall. The start of a compiled
    contender (a millisecond) counts; scripts time themselves without theirs."""
    environment = dict(os.environ, RAYON_NUM_THREADS="1")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["taskset", "-c", "0", *command, str(packets)], check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads(done.stdout)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result["packets"] / result.get("cpu_seconds", used) / 1e6


def main():
    with tempfile.TemporaryDirectory() as directory:
        c = compile_c(directory)
        netcliff = os.path.join(TARGET, "release", "examples", "packets_per_second")
        python = lambda script: [PYTHON, os.path.join(HERE, script)]
        contenders = [
            ("Lindley, C, libm log (the floor)", [c["floor"]], 10_000_000),
            ("Lindley, Rust, netcliff's generator, libm log", [netcliff, "lindley"], 10_000_000),
            ("Lindley, C, -ffast-math", [c["fast"]], 10_000_000),
            ("Lindley, C, 8 streams, logs in blocks, -ffast-math", [c["wide"]], 10_000_000),
            ("C event loop, binary heap, M/M/1/B", [c["heap"]], 5_000_000),
            ("netcliff ideal, rho = 0.8 (M/M/1/B)", [netcliff, "ideal@149.8127"], 10_000_000),
            ("netcliff interrupt, 100 kpps", [netcliff, "interrupt@100"], 5_000_000),
            ("netcliff coalesce:frames=8,usecs=50us, 100 kpps", [netcliff, "coalesce:frames=8,usecs=50us@100"], 5_000_000),
            ("netcliff coalesce:frames=8,usecs=50us,masked=true", [netcliff, "coalesce:frames=8,usecs=50us,masked=true@100"], 5_000_000),
            ("netcliff disable-enable, 100 kpps", [netcliff, "disable-enable@100"], 5_000_000),
            ("netcliff napi, 100 kpps", [netcliff, "napi@100"], 5_000_000),
            ("netcliff napi-2007, 100 kpps", [netcliff, "napi-2007@100"], 5_000_000),
            ("netcliff polling, 100 kpps", [netcliff, "polling@100"], 5_000_000),
            ("nexosim, M/M/1/B", [os.path.join(NEXOSIM, "release", "nexosim-queue")], 300_000),
            ("SimPy, M/M/1/B", python("queue_simpy.py"), 50_000),
            ("Ciw, M/M/1/B", python("queue_ciw.py"), 20_000),
        ]
        speeds = {name: [] for name, _, _ in contenders}
        for _ in range(ROUNDS):
            for name, command, packets in contenders:
                speeds[name].append(measure(command, int(packets * SCALE)))
    floor = speeds[contenders[0][0]]
    print(f"median (min..max) of {ROUNDS} interleaved rounds; load average {os.getloadavg()[0]:.1f}")
    print("| contender | million packets a CPU second | over the floor of its round |\n| --- | --- | --- |")
    for name, values in speeds.items():
        ratios = [value / below for value, below in zip(values, floor)]
        show = lambda xs, digits: f"{statistics.median(xs):.{digits}f} ({min(xs):.{digits}f}..{max(xs):.{digits}f})"
        print(f"| {name} | {show(values, 3)} | {show(ratios, 3)} |")


main()
