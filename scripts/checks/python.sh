#!/usr/bin/env bash
# python.sh [--needs]: the Python package: its wheel built and installed, in an environment of its own and in a bare one; its types; its
# tests, against the program of the last build. Exit 77, with the reason, where Python or PyPI cannot be reached; --needs only looks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh

skip() {
    echo "$*"
    exit 77
}

# Environment, wheels and marks are here.
work="${CARGO_TARGET_DIR:-$PWD/target}/python"
wanted=scripts/lib/python.txt
python="$work/venv/bin/python"

# The environment of the tests, anew where the list has changed.
prepare() {
    cmp -s "$wanted" "$work/installed.txt" && [[ -x "$python" ]] && return
    rm -rf "$work/venv" "$work/installed.txt"
    mkdir -p "$work"
    python3 -m venv "$work/venv" || return 1
    "$python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 -r "$wanted" </dev/null >&2 || return 1
    cp "$wanted" "$work/installed.txt"
}

command -v python3 >/dev/null || skip "python3 is not installed"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "$(python3 --version) is older than 3.10"
python3 -c 'import ensurepip, venv' 2>/dev/null || skip "python3-venv is not installed"
prepare || skip "the packages of $wanted cannot be installed from PyPI"
[[ "${1:-}" != --needs ]] || exit 0
find_cargo

# The profile of the other tests, so that nothing is compiled twice.
wheels="$work/wheels"
rm -rf "$wheels"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
PATH="$(dirname "$(command -v "$CARGO")"):$PATH" "$work/venv/bin/maturin" build --quiet --profile dev --locked \
    --manifest-path crates/python/Cargo.toml --interpreter "$python" --out "$wheels"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheels"/netcliff-*.whl

# With nothing but NumPy: neither xarray nor Dask are needed to compute.
rm -rf "$work/bare"
python3 -m venv "$work/bare"
"$work/bare/bin/python" -m pip install --quiet --disable-pip-version-check "$wheels"/netcliff-*.whl
(cd "$work" && bare/bin/python -c 'import netcliff; netcliff.predict("napi", rate_pps=[1e5, 2e5])')

cd crates/python
"$work/venv/bin/mypy" --cache-dir "$work/mypy" python/netcliff
NETCLIFF_BINARY="${NETCLIFF_BINARY:-$CARGO_TARGET_DIR/debug/netcliff}" "$python" -P -m pytest tests 2>&1 | tee "$work/pytest.log"
