#!/usr/bin/env bash
# run.sh [NETCLIFF]: every experiment of transfers in experiments/, one after the other: page, JSON and CSV beside this script. Needs
# root or unprivileged user namespaces; about 12 minutes on a quiet machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
NETCLIFF="$(realpath "${1:-../../../target/release/netcliff}")"
DB="$(mktemp -d)/records.db"
for name in block-sweep method-comparison kernel-share one-byte feature-matrix features-one-by-one slow-link; do
    echo "run.sh: $name" >&2
    "$NETCLIFF" --db "$DB" run "../../../experiments/$name.toml" --json >"$name.json" || true
    "$NETCLIFF" --db "$DB" results show >"$name.txt"
    jq -c 'del(.fingerprint)' "$name.json" >"$name.short" && mv "$name.short" "$name.json"
done
