#!/usr/bin/env bash
# python.sh [--needs]: checks the Python package: builds its wheel, installs it in an environment with all test packages
# and in one with NumPy only, checks its types, and runs its tests with the program of the last build. Exit code 77,
# with the reason: Python or the packages from PyPI are missing. --needs only prepares the environments. They are
# reused, so later runs need no network for the test packages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh

skip() {
    echo "$*"
    exit 77
}

# Directory of the environments and wheels.
work="${CARGO_TARGET_DIR:-$PWD/target}/python"
wanted=scripts/lib/python.txt
python="$work/venv/bin/python"

# install_into ENVIRONMENT ARGUMENTS...: runs pip install in an environment.
install_into() {
    "$work/$1/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 "${@:2}" </dev/null >&2
}

# Makes the environment of the tests and one with NumPy only. Makes them again when the list of packages has changed.
prepare() {
    cmp -s "$wanted" "$work/installed.txt" && [[ -x "$python" && -x "$work/bare/bin/python" ]] && return
    rm -rf "$work/venv" "$work/bare" "$work/installed.txt"
    mkdir -p "$work"
    python3 -m venv "$work/venv" && install_into venv -r "$wanted" || return 1
    python3 -m venv "$work/bare" && install_into bare -c "$wanted" numpy || return 1
    cp "$wanted" "$work/installed.txt"
}

command -v python3 >/dev/null || skip "python3 is not installed"
# The package itself supports 3.10.
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    skip "$(python3 --version) is older than 3.11, which the packages of $wanted need"
python3 -c 'import ensurepip, venv' 2>/dev/null || skip "python3-venv is not installed"
prepare || skip "the packages of $wanted cannot be installed from PyPI"
[[ "${1:-}" != --needs ]] || exit 0
find_cargo

# The wheel uses the cargo profile of the other tests. Much of the workspace is compiled again, because the wheel
# selects other features.
wheels="$work/wheels"
rm -rf "$wheels"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
PATH="$(dirname "$(command -v "$CARGO")"):$PATH" "$work/venv/bin/maturin" build --quiet --profile dev --locked \
    --manifest-path crates/python/Cargo.toml --interpreter "$python" --out "$wheels"
for environment in venv bare; do
    install_into "$environment" --no-deps --force-reinstall "$wheels"/netcliff-*.whl
done

# Computations need only NumPy, not xarray or Dask.
(cd "$work" && bare/bin/python -c 'import netcliff; netcliff.predict("napi", rate_pps=[1e5, 2e5])')

cd crates/python
"$work/venv/bin/mypy" --cache-dir "$work/mypy" python/netcliff
NETCLIFF_BINARY="${NETCLIFF_BINARY:-$CARGO_TARGET_DIR/debug/netcliff}" "$python" -P -m pytest tests 2>&1 | tee "$work/pytest.log"
