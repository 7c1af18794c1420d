"""The documentation runs: the Python of docs/python.md, block after block, and the notebooks of docs/notebooks as they stand, cell by cell in a
fresh interpreter; they find what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[3] / "docs"

PAGE = DOCS / "python.md"
#: Blocks of other hosts, which are tested elsewhere: test_tls.py, test_hosts.py, test_sweeps.py.
ELSEWHERE = ("tcp://", "tls://", "root@")

#: What a notebook must have found, as an expression over its variables.
FINDS = {
    "figure-7": "125e3 < cliff_pps < 129e3 and list(sweeps['b'].engine.values) == ['model (paper)', 'sim']",
    "figure-10": "160e3 < most_pps < 172e3",
    "fit-costs": "all(low < known[name] < high < 1.2 * low for name, (low, _, high) in fitted.items()) and 0.3 < variance < 3",
    "what-if": (
        "curves['application twice as fast']['throughput_pps'].max() > 1.1 * curves['as measured']['throughput_pps'].max() and "
        "abs(curves['as measured']['throughput_pps'].max() / cliff_pps - 1) < 0.25"
    ),
    "read-a-store": "len(records) == 40 == runs.records[0] and 0 < differences.abs().max() < 5e3",
}

RUNNER = """
import json, sys
import __main__
for number, cell in enumerate(json.load(open(sys.argv[1]))["cells"]):
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), f"{sys.argv[1]}, cell {number}", "exec"), vars(__main__))
found = eval(sys.argv[2])
print("FOUND" if found else "NOT FOUND")
"""


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    here = [block for block in blocks if not any(part in block for part in ELSEWHERE)]
    assert len(here) == len(blocks) - 3 >= 3
    names: dict[str, Any] = {}
    for number, block in enumerate(here):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
    assert names["curve"]["throughput_pps"].shape == (50, 2)
    assert float(names["data"].throughput_pps.max()) > 180e3


def notebook(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "notebooks" / f"{name}.ipynb").read_text())
    return found


def test_every_notebook_is_run() -> None:
    assert {path.stem for path in (DOCS / "notebooks").glob("*.ipynb")} == set(FINDS)


@pytest.mark.parametrize("name", FINDS)
def test_a_notebook_is_kept_without_outputs(name: str) -> None:
    code = [cell for cell in notebook(name)["cells"] if cell["cell_type"] == "code"]
    assert code and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.parametrize("name", ["figure-7", "figure-10"])
def test_a_figure_takes_ten_lines(name: str) -> None:
    first = next(cell for cell in notebook(name)["cells"] if cell["cell_type"] == "code")
    lines = [line for line in first["source"] if line.strip() and not line.startswith("import ")]
    assert len(lines) <= 10


@pytest.mark.parametrize("name", FINDS)
def test_a_notebook_runs_and_finds(name: str, tmp_path: Path) -> None:
    place = tmp_path / "notebooks"
    place.mkdir()
    (place / "testbed.json.xz").symlink_to(DOCS / "notebooks/testbed.json.xz")
    (place / "run.py").write_text(RUNNER)
    command = [sys.executable, "run.py", str(DOCS / "notebooks" / f"{name}.ipynb"), FINDS[name]]
    said = subprocess.run(command, cwd=place, env={**os.environ, "MPLBACKEND": "agg"}, capture_output=True, text=True)
    assert said.returncode == 0 and said.stdout.splitlines()[-1:] == ["FOUND"], said.stdout + said.stderr
