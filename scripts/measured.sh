#!/usr/bin/env bash
# measured.sh [--record]: whether what measures is what `make measure` last passed with: exit 0 where it is, else 1. The hash of these parts of the
# tree stands in scripts/measured.txt; --record writes it (make measure does, when all of it passed).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
parts=(crates/packets crates/remote crates/trial crates/find crates/mlrsearch crates/rfc2544 crates/transfer crates/host/src/cpu crates/host/src/testbed crates/host/bpf
    crates/cli/tests/cli/find.rs crates/cli/tests/cli/rfc2544.rs)
hash="$(git ls-files -s -- "${parts[@]}" | sha256sum | cut -d' ' -f1)"
if [[ "${1:-}" == --record ]]; then
    echo "$hash" >scripts/measured.txt
else
    [[ "$(cat scripts/measured.txt 2>/dev/null)" == "$hash" ]]
fi
