"""Trials in the log of a find: standard error of `NETCLIFF_LOG=debug netcliff find ...`, or the xz of it."""

import lzma
import re


def trials(path):
    """(stage, figures) of each trial, and (None, its name) where a check begins."""
    opened = lzma.open(path, "rt") if path.endswith(".xz") else open(path)
    with opened as log:
        for line in log:
            line = re.sub(r"\x1b?\[[\d;]*m", "", line).replace("\x1b", "")
            if "recorder" not in line or " trial " not in line:
                if "checking " in line:
                    yield None, line.split("checking ")[1].strip()
                continue
            fields = dict(re.findall(r"(\w+)=(\[[^\]]*\]|\S+)", line))
            figures = {k: float(v) for k, v in fields.items() if re.fullmatch(r"-?[\d.]+(e-?\d+)?", v)}
            found = re.search(r"undisturbed_work_s=(?:Some\()?([\d.e-]+)", line)
            figures["undisturbed_work_s"] = float(found[1]) if found else None
            if figures.get("elapsed_s"):
                yield fields["stage"], figures
