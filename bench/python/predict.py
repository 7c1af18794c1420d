"""One call of `netcliff.predict` over 1e5 loads; the Rust loop: crates/model/examples/predict_loop.rs, same scheme and loads.

    cargo run --release -p netcliff-model --example predict_loop
    python bench/python/predict.py    # with a wheel of the release profile
"""

import time

import netcliff
import numpy as np

loads = 1e3 + 2.0 * np.arange(100_000)
for scheme in ("ideal", "interrupt"):
    took = []
    for _ in range(5):
        start = time.perf_counter()
        netcliff.predict(scheme, rate_pps=loads, fidelity="paper")
        took.append(time.perf_counter() - start)
    print(f"{scheme}: best {min(took):.3f} s, all {[round(t, 3) for t in took]}")
