#!/usr/bin/env bash
# measured.sh wire|web [--record]: exit 0 where a part of the tree, as it lies there, is what its slow tests last passed with, else 1.
#   wire  what measures: where it changed, `make test` runs all paced tests (which records it, when they passed; make measure, too)
#   web   the page and what answers it: where it changed, `make test` runs the explorer in browsers (which records it, when that passed)
# The hashes stand in scripts/measured.txt, which is committed; --record writes one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1:-}" in
wire)
    parts=(crates/packets crates/remote crates/trial crates/find crates/mlrsearch crates/rfc2544 crates/transfer crates/host/src/cpu
        crates/host/src/testbed crates/host/bpf crates/cli/tests/cli/find.rs crates/cli/tests/cli/rfc2544.rs)
    ;;
web) parts=(web crates/wasm crates/core crates/model crates/sim crates/report) ;;
*)
    echo "measured.sh: '${1:-}' is no part; expected wire or web" >&2
    exit 2
    ;;
esac
# Files as they lie there, also those that are not committed yet.
hash="$(git ls-files -z --cached --others --exclude-standard -- "${parts[@]}" | sort -zu | while IFS= read -r -d '' file; do
    [[ ! -f "$file" ]] || sha256sum -- "$file"
done | sha256sum | cut -d' ' -f1)"
recorded=scripts/measured.txt
if [[ "${2:-}" == --record ]]; then
    others="$(sed "/^$1 /d" "$recorded" 2>/dev/null || true)"
    printf '%s\n' ${others:+"$others"} "$1 $hash" | sort >"$recorded"
else
    grep -qsx "$1 $hash" "$recorded" || exit 1
fi
