#!/usr/bin/env bash
# measured.sh [--record]: whether what measures is what `make measure` last passed with: exit 0 where it is, else 1. The hash of these parts of the
# tree stands in scripts/measured.txt; --record writes it (make measure does, when all of it passed).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
parts=(crates/wire crates/host/src/cpu crates/host/src/testbed crates/host/bpf crates/lab/src/find crates/lab/src/calibrate crates/lab/src/rfc2544 crates/lab/src/rig
    crates/lab/src/trial crates/cli/tests/cli/find.rs crates/cli/tests/cli/rfc2544.rs)
hash="$(git ls-files -s -- "${parts[@]}" | sha256sum | cut -d' ' -f1)"
if [[ "${1:-}" == --record ]]; then
    echo "$hash" >scripts/measured.txt
else
    [[ "$(cat scripts/measured.txt 2>/dev/null)" == "$hash" ]]
fi
