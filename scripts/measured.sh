#!/usr/bin/env bash
# measured.sh wire|web [--record]: exit code 0 if a part of the tree, in its present state, is the state with which its
# slow tests last passed; otherwise 1.
#   wire  the code that measures: if it has changed, `make test` runs all paced tests, and records the state when they
#         pass (so does `make measure`)
#   web   the page and the code that answers it: if they have changed, `make test` runs the explorer in browsers, and
#         records the state when it passes
# The hashes of the states are in scripts/measured.txt, which is committed. --record writes one.
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
# Hashes the files in their present state, including files that are not committed yet.
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
