"""Counts how often the 95 % intervals of docs/notebooks/fit-costs.ipynb contain the known costs. Runs the notebook's
own code with other seeds.

    python bench/python/coverage.py [SEEDS]
"""

import contextlib
import io
import json
import sys
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "docs/notebooks/fit-costs.ipynb"

if __name__ == "__main__":
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert code.count("seed=5") == 1 and code.count("default_rng(5)") == 1
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    held: dict[str, int] = {}
    for seed in range(1, seeds + 1):
        names: dict = {}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code.replace("seed=5", f"seed={seed}").replace("default_rng(5)", f"default_rng({seed})"), names)
        for name, (low, _, high) in names["fitted"].items():
            held[name] = held.get(name, 0) + (low < names["known"][name] < high)
    for name, count in held.items():
        print(f"{name}: {count} of {seeds} intervals hold the known cost")
