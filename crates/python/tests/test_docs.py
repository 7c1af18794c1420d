"""The Python of docs/python.md runs, block after block; what needs another host is tested elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "python.md"
#: Blocks of other hosts: test_tls.py, test_hosts.py, test_sweeps.py.
ELSEWHERE = ("tcp://", "tls://", "root@")


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
