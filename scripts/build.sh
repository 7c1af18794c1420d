#!/usr/bin/env bash
# build.sh: builds the program for release; a first build says on stderr how long it takes and how far it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target="${CARGO_TARGET_DIR:-target}"
[[ ! -e "$target/release/netcliff" ]] || exec scripts/cargo.sh build --release -p netcliff

echo "build: compiling netcliff and its libraries; about 4 minutes on two CPUs" >&2
# A terminal has cargo's own progress bar; a log has a line each half minute.
if [[ ! -t 2 ]]; then
    (
        # The pause outlives this script: it must not hold the log open.
        while sleep 30 >/dev/null 2>&1; do
            printf 'build: %s libraries compiled after %s s\n' \
                "$(find "$target/release/deps" -name '*.rlib' 2>/dev/null | wc -l)" "$SECONDS" >&2
        done
    ) &
    progress=$!
    trap 'kill "$progress" 2>/dev/null || true' EXIT
fi
scripts/cargo.sh build --release -p netcliff
