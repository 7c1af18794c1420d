#!/usr/bin/env bash
# cargo.sh ARGUMENTS...: runs the cargo that setup.sh chose, without the feature `ebpf` if the eBPF programs cannot be
# built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh

find_cargo || {
    echo "cargo $(required_rust) or newer not found; run: make setup" >&2
    exit 1
}

arguments=("$@")
case "${1:-}" in
build | run | test | clippy | doc)
    if ! ebpf_wanted || ! ebpf_buildable; then
        arguments=("$1" --no-default-features "${@:2}")
    fi
    ;;
nextest) # has its command first
    if ! ebpf_wanted || ! ebpf_buildable; then
        arguments=("$1" "$2" --no-default-features "${@:3}")
    fi
    ;;
esac
exec "$CARGO" "${arguments[@]}"
