#!/usr/bin/env python3
"""house.py: measures the structure of the sources and its limits: tracked files, lines per crate, files below 60 lines,
and within each crate backward arrows and cycles of modules (from `use` and paths in code, without tests).

A module is a file. An arrow means that one file uses a name of another. Backward arrows are the fewest arrows whose
removal leaves no cycle. Between crates there are none (cargo and scripts/checks/arrows.sh ensure that). Prints a table
and the limits. --circles also lists the files of each cycle and its backward arrows, --small the small files. --check
prints only cycles, and fails if there are any."""

import itertools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SMALL = 60
MOST_FILES = 1700
# Cycles up to this size are ordered exactly (at most 5040 orders).
EXACT = 7


def tracked():
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [pathlib.Path(name) for name in out.splitlines() if (ROOT / name).exists()]


def module_of(path):
    """The module path of a source file below src: ("find", "stages")."""
    parts = list(path.parts)
    parts[-1] = path.stem
    if parts[-1] in ("mod", "lib", "main"):
        parts.pop()
    return tuple(parts)


def code(text):
    text = re.sub(r"//[^\n]*", "", text)
    return re.split(r"#\[cfg\(test\)\]\s*(?:#\[path[^\n]*\]\s*)?mod \w+ \{", text)[0]


def flattened(tree, prefix=()):
    """The paths of a `use` tree: `a::{b, c::d}` gives a::b and a::c::d."""
    tree = tree.strip()
    depth, start, items = 0, 0, []
    for i, char in enumerate(tree):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            items.append(tree[start:i])
            start = i + 1
    items.append(tree[start:])
    for item in filter(None, (item.strip() for item in items)):
        if "{" in item:
            head, rest = item.split("{", 1)
            yield from flattened(rest.rsplit("}", 1)[0], prefix + tuple(p.strip() for p in head.split("::") if p.strip()))
        else:
            yield prefix + tuple(p.strip() for p in item.split(" as ")[0].split("::"))


def arrows(src):
    files = {module_of(path.relative_to(src)): path for path in src.rglob("*.rs") if "tests" not in path.stem and "/tests/" not in str(path)}
    found = {module: set() for module in files}
    for module, path in files.items():
        text = code(path.read_text())
        paths = [p for tree in re.findall(r"\buse ([^;]+);", text) for p in flattened(tree)]
        paths += [tuple(p.split("::")) for p in re.findall(r"\b(?:crate|super)(?:::\w+)+", text)]
        for parts in paths:
            base = list(module)
            if parts[0] == "crate":
                base, parts = [], parts[1:]
            elif parts[0] in ("super", "self"):
                while parts and parts[0] in ("super", "self"):
                    base = base[:-1] if parts[0] == "super" else base
                    parts = parts[1:]
            else:
                continue
            target = tuple(base) + tuple(parts)
            while target and target not in files:
                target = target[:-1]
            # A parent module re-exports its parts, so an arrow to a parent of the module is not counted.
            if target in files and target != module and target != module[: len(target)]:
                found[module].add(target)
    return found


def circles(graph):
    """Strongly connected components of more than one module (Tarjan 1972)."""
    index, low, stack, on, out = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on.add(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = []
            while True:
                other = stack.pop()
                on.discard(other)
                part.append(other)
                if other == node:
                    break
            if len(part) > 1:
                out.append(sorted(part))

    for node in graph:
        if node not in index:
            visit(node)
    return sorted(out, key=len, reverse=True)


def check():
    wrong = False
    for crate in sorted(path for path in (ROOT / "crates").iterdir() if (path / "src").exists()):
        for part in circles(arrows(crate / "src")):
            print(f"{crate.name}: {len(part)} modules use each other in a circle: {' '.join('::'.join(m) for m in part)}")
            wrong = True
    return wrong


def backwards(graph, part):
    """The fewest arrows of a cycle that point backwards in some order of its modules. For a large cycle, only the order
    by number of outgoing arrows is tried."""
    inside = {(one, other) for one in part for other in graph[one] if other in part}
    orders = itertools.permutations(part) if len(part) <= EXACT else [sorted(part, key=lambda module: -len(graph[module] & set(part)))]
    return min(([(one, other) for one, other in inside if order.index(one) > order.index(other)] for order in orders), key=len)


def is_test(path):
    return "tests" in path.parts or "tests" in path.stem


def is_door(path):
    return path.stem in ("lib", "main", "mod", "build") or (ROOT / path).with_suffix("").is_dir()


def main():
    sys.setrecursionlimit(10_000)
    if "--check" in sys.argv:
        sys.exit(check())
    files = tracked()
    row = "{:10} {:>5} {:>7} {:>7} {:>5} {:>5} {:>15} {:>12}"
    print(row.format("crate", "files", "lines", "tests", f"<{SMALL}", "back", "largest circle", "circles"))
    totals = [0] * 7
    for crate in sorted(path for path in (ROOT / "crates").iterdir() if (path / "src").exists()):
        rust = [path for path in files if path.suffix == ".rs" and crate.relative_to(ROOT) in path.parents]
        lines = {path: len((ROOT / path).read_text().splitlines()) for path in rust}
        small = [path for path in rust if lines[path] < SMALL and not is_door(path)]
        graph = arrows(crate / "src")
        found = circles(graph)
        back = [backwards(graph, part) for part in found]
        counts = [
            len(rust),
            sum(n for path, n in lines.items() if not is_test(path)),
            sum(n for path, n in lines.items() if is_test(path)),
            len(small),
            sum(map(len, back)),
            max(map(len, found), default=0),
            len(found),
        ]
        print(row.format(crate.name, *counts))
        totals = [max(a, b) if i == 5 else a + b for i, (a, b) in enumerate(zip(totals, counts))]
        if "--circles" in sys.argv:
            for part, wrong in zip(found, back):
                print("   ", len(part), " ".join("::".join(module) for module in part))
                for one, other in sorted(wrong):
                    print("      back:", "::".join(one), "->", "::".join(other))
        if "--small" in sys.argv:
            for path in small:
                print("   ", lines[path], path)
    print(row.format("all", *totals))
    print()
    for name, seen, bar in [
        ("tracked files", len(files), f"below {MOST_FILES}"),
        ("circles of modules", totals[6], "0"),
        ("arrows backwards between modules", totals[4], "0"),
        (f"Rust files below {SMALL} lines that are no module's door", totals[3], ""),
    ]:
        print(f"{name}: {seen}" + (f" (bar: {bar})" if bar else ""))


main()
