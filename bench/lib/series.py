"""Functions for a series of runs of `netcliff find`: making a run, and recording it."""
import os
import pathlib
import subprocess
import sys
import time

NETCLIFF = os.environ.get("NETCLIFF") or str(pathlib.Path(__file__).resolve().parents[2] / "target/release/netcliff")


def refuse(text):
    print(text, file=sys.stderr)
    sys.exit(2)


def refuse_missing_program():
    try:
        subprocess.run([NETCLIFF, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        refuse(f"run.py: {NETCLIFF} does not run: build it (cargo build --release) or name another in NETCLIFF")


def append(path, text):
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def is_made(out, name):
    finding = out / f"{name}.json"
    return finding.exists() and finding.stat().st_size > 0


def find(out, name, options):
    """Runs `find` and records its command. Standard output (the finding) goes to NAME.json.part and standard error to
    NAME.err. Returns the exit code and the time taken (s)."""
    append(out / "commands.txt", f"{name}: netcliff find --json --no-store {' '.join(options)}\n")
    start = time.monotonic()
    with open(out / f"{name}.json.part", "w") as printed, open(out / f"{name}.err", "w") as said:
        code = subprocess.run([NETCLIFF, "find", "--json", "--no-store", *options], stdout=printed, stderr=said).returncode
    return code, time.monotonic() - start


def keep(out, name, code, took_s):
    """Renames NAME.json.part to NAME.json, and records how long the run took."""
    (out / f"{name}.json.part").rename(out / f"{name}.json")
    append(out / "seconds.txt", f"{name} {took_s:.0f}\n")
    print(f"run.py: {name}: exit code {code} after {took_s:.0f} s, load {os.getloadavg()[0]:.2f}", file=sys.stderr)
