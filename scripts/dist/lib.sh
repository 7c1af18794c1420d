# shellcheck shell=bash
# Functions for the scripts of this directory, which source this file.

# Directory of the tools of `make dist`, which setup_dist_tools installs next to those of the checks.
dist_tools() {
    printf '%s/dist-tools' "${NETCLIFF_DIST_TOOLS:-$PWD/target}"
}

# Installs scripts/lib/dist-tools.txt (zig: C compiler, headers and C library of musl for both processors) if it is
# missing.
setup_dist_tools() {
    local dir
    dir="$(dist_tools)"
    # Compares the content of the list, not its age: the file of a fresh clone is always newer, and --check would
    # install everything again.
    [[ -x "$dir/bin/python3" ]] && cmp -s scripts/lib/dist-tools.txt "$dir/pinned" && return
    rm -rf "$dir"
    echo "dist: installing zig into $dir" >&2
    python3 -m venv "$dir"
    "$dir/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --no-deps --require-hashes \
        -r scripts/lib/dist-tools.txt >&2
    cp scripts/lib/dist-tools.txt "$dir/pinned"
}

# Directory of cargo-auditable.
auditable_bin() {
    printf '%s/auditable/bin' "$(dist_tools)"
}

# Compiles a pinned version of cargo-auditable if it is missing. If that fails, the list of crates is only in the SBOM.
setup_auditable() {
    [[ -x "$(auditable_bin)/cargo-auditable" ]] && return
    echo "dist: compiling cargo-auditable (a minute)" >&2
    "${CARGO:-cargo}" install --quiet --locked --root "$(auditable_bin)/.." cargo-auditable@0.7.7 </dev/null >&2 ||
        echo "dist: without cargo-auditable: the binary does not name its crates, the SBOM does" >&2
}

zig() {
    "$(dist_tools)/bin/python3" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))'
}

# Prints the source directory of a crate, in the version of Cargo.lock.
crate_dir() {
    "${CARGO:-cargo}" metadata --locked --format-version 1 | python3 -c '
import json, os, sys
found = [p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == sys.argv[1]]
if len(found) != 1:
    sys.exit(f"dist: {len(found)} versions of the crate {sys.argv[1]} in Cargo.lock, 1 expected")
print(os.path.dirname(found[0]))' "$1"
}

# Prints the version of the release: that of the workspace, which is stored nowhere else.
workspace_version() {
    sed -n '/^\[workspace.package\]/,/^\[/s/^version *= *"\(.*\)"$/\1/p' Cargo.toml
}
