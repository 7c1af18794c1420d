#!/usr/bin/env bash
# build.sh: builds the program for release. During a first build, it prints the expected time and the progress to
# stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target="${CARGO_TARGET_DIR:-target}"
[[ ! -e "$target/release/netcliff" ]] || exec scripts/cargo.sh build --release -p netcliff

echo "build: compiling netcliff and its libraries; about 4 minutes on two CPUs" >&2
# On a terminal, cargo shows a progress bar. Elsewhere, a line is printed every 30 s.
if [[ ! -t 2 ]]; then
    (
        # `sleep` can outlive this script, so its output is redirected: otherwise it would hold the log open.
        while sleep 30 >/dev/null 2>&1; do
            printf 'build: %s libraries compiled after %s s\n' \
                "$(find "$target/release/deps" -name '*.rlib' 2>/dev/null | wc -l)" "$SECONDS" >&2
        done
    ) &
    progress=$!
    trap 'kill "$progress" 2>/dev/null || true' EXIT
fi
scripts/cargo.sh build --release -p netcliff
