"""Resident memory of the process during 1e5 calls of each function in `MANY` of test_compute.py, measured after each
tenth of the calls. The tests make the same calls, but fewer.

    python bench/python/leaks.py [CALLS]
"""

import importlib.util
import sys
import time
from pathlib import Path

import psutil

TESTS = Path(__file__).parents[2] / "crates/python/tests/test_compute.py"

if __name__ == "__main__":
    spec = importlib.util.spec_from_file_location("test_compute", TESTS)
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    process = psutil.Process()
    for call in tests.MANY:
        start, kib = time.perf_counter(), []
        for _ in range(10):
            for _ in range(count // 10):
                call()
            kib.append(process.memory_info().rss >> 10)
        took = time.perf_counter() - start
        grown = max(kib[5:]) - max(kib[:5])
        print(f"{call.__name__}: {count} calls in {took:.1f} s, {grown:+} KiB from the first half to the second, {process.num_threads()} threads; {kib}")
