#!/usr/bin/env python3
"""inventory.py sbom|licences TARGET OUT: lists what is linked into the binary, by Cargo.lock.

sbom: CycloneDX 1.5 (https://cyclonedx.org/docs/1.5/json/) with name, version, licence, digest and dependencies of every
crate, and the C libraries that crates contain. licences: the licence texts of all of them, each text once. The output
is deterministic: it contains no time, and its serial number is computed from its content."""

import hashlib
import json
import os
import re
import subprocess
import sys
import uuid

# C sources that crates contain: (crate, name, licence, file that contains the version, regular expression for the
# version).
VENDORED = [
    ("libbpf-sys", "libbpf", "LGPL-2.1-only OR BSD-2-Clause", None, None),
    ("libbpf-sys", "elfutils-libelf", "GPL-2.0-or-later OR LGPL-3.0-or-later", "elfutils/NEWS", r"Version ([\d.]+)"),
    ("libbpf-sys", "zlib", "Zlib", "zlib/zlib.h", r'ZLIB_VERSION "([\d.]+)"'),
    ("libsqlite3-sys", "sqlite", "blessing", "sqlite3/sqlite3.h", r'SQLITE_VERSION +"([\d.]+)"'),
]
TEXTS = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def metadata(target):
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--locked", "--format-version", "1"]
    return json.loads(subprocess.run(command + ["--filter-platform", target], check=True, capture_output=True).stdout)


def linked(data):
    """The packages in the binary: those that netcliff reaches by normal dependencies, not only by build scripts or
    tests."""
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    (root,) = [p["id"] for p in data["packages"] if p["name"] == "netcliff"]
    edges, waiting = {}, [root]
    while waiting:
        at = waiting.pop()
        if at in edges:
            continue
        wanted = [d["pkg"] for d in nodes[at]["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"])]
        # Procedural macros and their dependencies run only in the compiler.
        edges[at] = sorted(d for d in wanted if not is_macro(packages[d]))
        waiting += edges[at]
    return root, {i: packages[i] for i in edges}, edges


def is_macro(package):
    return any("proc-macro" in target["kind"] for target in package["targets"])


def digests():
    with open("Cargo.lock", encoding="utf-8") as file:
        lock = file.read()
    found = re.findall(r'name = "(.*)"\nversion = "(.*)"\n(?:source = .*\n)?(?:checksum = "(.*)")?', lock)
    return {(name, version): digest for name, version, digest in found}


def vendored(packages):
    by_name = {package["name"]: package for package in packages.values()}
    for crate, name, licence, place, expression in VENDORED:
        package = by_name[crate]
        version = package["version"].split("+v")[-1]
        if place:
            path = os.path.join(os.path.dirname(package["manifest_path"]), place)
            with open(path, encoding="utf-8", errors="replace") as file:
                version = re.search(expression, file.read())[1]
        yield crate, name, version, licence, os.path.dirname(package["manifest_path"])


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def sbom(target):
    root, packages, edges = linked(metadata(target))
    known = digests()

    def component(package):
        entry = {"type": "library", "bom-ref": reference(package), "name": package["name"], "version": package["version"]}
        entry["purl"] = reference(package)
        if package["license"]:
            entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        digest = known.get((package["name"], package["version"]))
        if digest:
            entry["hashes"] = [{"alg": "SHA-256", "content": digest}]
        return entry

    of_crates = [component(package) for i, package in packages.items() if i != root]
    main = {**component(packages[root]), "type": "application"}
    dependencies = {reference(packages[i]): [reference(packages[d]) for d in edges[i]] for i in edges}
    for crate, name, version, licence, _ in vendored(packages):
        ref = f"pkg:generic/{name}@{version}"
        # "blessing" is the SPDX name of SQLite's public-domain dedication.
        of_crates.append({"type": "library", "bom-ref": ref, "name": name, "version": version, "purl": ref,
                          "licenses": [{"expression": licence}]})
        (owner,) = [reference(p) for p in packages.values() if p["name"] == crate]
        dependencies[owner].append(ref)
        dependencies[ref] = []
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": main, "properties": [{"name": "cdx:rust:target", "value": target}]},
        "components": sorted(of_crates, key=lambda entry: entry["bom-ref"]),
        "dependencies": [{"ref": ref, "dependsOn": sorted(on)} for ref, on in sorted(dependencies.items())],
    }
    digest = hashlib.sha256(json.dumps(bom, sort_keys=True).encode()).hexdigest()
    bom["serialNumber"] = f"urn:uuid:{uuid.UUID(digest[:32])}"
    return json.dumps(bom, indent=1, sort_keys=True) + "\n"


def licences(target):
    root, packages, _ = linked(metadata(target))
    users, texts = {}, {}

    def take(owner, path):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read().strip()
        key = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
        texts.setdefault(key, text)
        users.setdefault(key, []).append(owner)

    lines = ["The netcliff binary contains the following, each under its own licence. The texts follow; each stands once.", ""]
    for package in sorted(packages.values(), key=lambda p: (p["name"], p["version"])):
        if package["source"] is None:
            continue
        lines.append(f"{package['name']} {package['version']}: {package['license']}")
        at = os.path.dirname(package["manifest_path"])
        for name in sorted(os.listdir(at)):
            if TEXTS.match(name) and os.path.isfile(os.path.join(at, name)):
                take(f"{package['name']} {package['version']}", os.path.join(at, name))
    for _, name, version, licence, at in vendored(packages):
        lines.append(f"{name} {version} (C): {licence}")
        if name == "elfutils-libelf":
            for text in ("COPYING-GPLV2", "COPYING-LGPLV3", "COPYING"):
                take(f"{name} {version}", os.path.join(at, "elfutils", text))
    lines += ["musl (C library): MIT", "",
              "libelf is taken under LGPL-3.0-or-later. To link the program with another libelf, put its libelf.a in place of that which",
              "scripts/dist/clibs.sh makes, and run scripts/dist/binary.sh: sources, scripts and lock file are all that the build takes.", ""]
    for key, text in sorted(texts.items(), key=lambda entry: users[entry[0]]):
        lines += ["=" * 78, ", ".join(users[key]), "=" * 78, text, ""]
    return "\n".join(lines)


def main():
    make = {"sbom": sbom, "licences": licences}
    if len(sys.argv) != 4 or sys.argv[1] not in make:
        sys.exit(__doc__)
    text = make[sys.argv[1]](sys.argv[2])
    with open(sys.argv[3], "w", encoding="utf-8") as out:
        out.write(text)


main()
