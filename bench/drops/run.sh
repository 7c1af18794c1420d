#!/usr/bin/env bash
# The ledger: 50 trials of each kind of drop, provoked, and what it costs to trace drops, in pairs of trials. Needs root and two CPUs.
#
#   bench/drops/run.sh [DIRECTORY FOR RESULTS]
#
# TRIALS (50), PAIRS (30), SECONDS_A_TRIAL (1) and LOADS ("300000 900000") of the environment are others' numbers.
set -euo pipefail
cd "$(dirname "$0")/../.."
into=${1:-bench/drops/results}
mkdir -p "$into"

NETCLIFF_PROVOKED_TRIALS=${TRIALS:-50} scripts/cargo.sh test -p netcliff-host --lib drops::tests::provoked -- --nocapture \
    | grep -E 'trials,|test result' | tee "$into/provoked.txt"

# shellcheck disable=SC2086 # several loads
scripts/cargo.sh run --release -p netcliff-trial --example ledger_cost -- "${PAIRS:-30}" "${SECONDS_A_TRIAL:-1}" ${LOADS:-300000 900000} \
    | tee "$into/cost.csv"
