#!/usr/bin/env python3
"""house.py: the shape of the sources: files, lines by crate, small files, and the circles of modules within each crate (from `use` and paths in code;
tests left out). A module is a file; an arrow is a name that one file takes from another. Prints a table; --circles lists the files of each circle.
--check prints circles of more than three modules only, and fails where there are some."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SMALL = 60
LARGEST_CIRCLE = 3


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
    """The paths of a `use` tree: a::{b, c::d} is a::b and a::c::d."""
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
            # A door re-exports its parts: an arrow to or from it is no dependency of its own.
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
            if len(part) > LARGEST_CIRCLE:
                print(f"{crate.name}: {len(part)} modules use each other in a circle, at most {LARGEST_CIRCLE} may: {' '.join('::'.join(m) for m in part)}")
                wrong = True
    return wrong


def main():
    sys.setrecursionlimit(10_000)
    if "--check" in sys.argv:
        sys.exit(check())
    files = tracked()
    print(f"files {len(files)}")
    print(f"{'crate':10} {'files':>5} {'lines':>7} {'tests':>7} {'<' + str(SMALL):>5} {'largest circle':>15} {'circles > 3':>12}")
    for crate in sorted(path for path in (ROOT / "crates").iterdir() if (path / "src").exists()):
        rust = [path for path in files if path.suffix == ".rs" and crate.relative_to(ROOT) in path.parents]
        lines = {path: len((ROOT / path).read_text().splitlines()) for path in rust}
        tests = {path for path in rust if "tests" in path.parts or "tests" in path.stem}
        doors = {path for path in rust if path.stem in ("lib", "main", "mod", "build") or (ROOT / path).with_suffix("").is_dir()}
        small = [path for path in rust if lines[path] < SMALL and path not in doors]
        found = circles(arrows(crate / "src"))
        print(
            f"{crate.name:10} {len(rust):5} {sum(n for p, n in lines.items() if p not in tests):7} {sum(lines[p] for p in tests):7} {len(small):5} "
            f"{len(found[0]) if found else 0:15} {sum(len(part) > 3 for part in found):12}"
        )
        if "--circles" in sys.argv:
            for part in found:
                print("   ", len(part), " ".join("::".join(module) for module in part))


main()
