#!/usr/bin/env bash
# Tests the ledger with 50 trials of each kind of drop, which the tests provoke, and measures the cost of tracing drops
# with pairs of trials. Needs root and two CPUs.
#
#   bench/drops/run.sh [DIRECTORY FOR RESULTS]
#
# Environment variables change the defaults: TRIALS (50), PAIRS (30), SECONDS_A_TRIAL (1), LOADS ("300000 900000").
set -euo pipefail
cd "$(dirname "$0")/../.."
into=${1:-bench/drops/results}
mkdir -p "$into"

NETCLIFF_PROVOKED_TRIALS=${TRIALS:-50} scripts/cargo.sh test -p netcliff-host --lib drops::tests::provoked -- --nocapture \
    | grep -E 'trials,|test result' | tee "$into/provoked.txt"

# shellcheck disable=SC2086 # several loads
scripts/cargo.sh run --release -p netcliff-trial --example ledger_cost -- "${PAIRS:-30}" "${SECONDS_A_TRIAL:-1}" ${LOADS:-300000 900000} \
    | tee "$into/cost.csv"
