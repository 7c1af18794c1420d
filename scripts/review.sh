#!/usr/bin/env bash
# review.sh [NETCLIFF]: repeats the findings of the review of 28 November 2026 with this program (default:
# target/debug/netcliff), in separate namespaces. Prints one line per finding (row): `ok`, `WRONG` or `SKIPPED`, the
# name of the row, and the observation. Exit code 1: a row is WRONG. Needs root. Takes about four minutes.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
netcliff="$(realpath "${1:-target/debug/netcliff}")"
rows="$(mktemp)"
trap 'rm -f "$rows"' EXIT
for script in scripts/review/*.sh; do
    timeout 300 bash "$script" "$netcliff" 2>&1 | tee -a "$rows"
    status="${PIPESTATUS[0]}"
    # A script that ends without a verdict has not passed.
    ((status <= 1)) || echo "WRONG $script: ended with $status" | tee -a "$rows"
done
printf '%s ok, %s WRONG, %s SKIPPED\n' "$(grep -c '^ok ' "$rows")" "$(grep -c '^WRONG ' "$rows")" "$(grep -c '^SKIPPED ' "$rows")"
! grep -q '^WRONG ' "$rows"
