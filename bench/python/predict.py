"""Measures the time (s) of `import netcliff` without the start of the interpreter, and of one call of
`netcliff.predict` for 1e5 loads. crates/model/examples/predict_loop.rs is the same loop in Rust, with the same schemes
and loads.

    cargo run --release -p netcliff-model --example predict_loop
    python bench/python/predict.py    # with a wheel of the release profile
"""

import subprocess
import sys
import time

import netcliff
import numpy as np


def run(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


print("import:", sorted(round(run("import netcliff") - run("pass"), 3) for _ in range(10)))
loads = 1e3 + 2.0 * np.arange(100_000)
for scheme in ("ideal", "interrupt"):
    took = []
    for _ in range(5):
        start = time.perf_counter()
        netcliff.predict(scheme, rate_pps=loads, fidelity="paper")
        took.append(time.perf_counter() - start)
    print(f"{scheme}: best {min(took):.3f} s, all {[round(t, 3) for t in took]}")
