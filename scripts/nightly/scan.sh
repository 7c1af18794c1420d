#!/bin/sh
# Model against simulator at 2000 random points over all schemes and options; prints each disagreement beyond chance and fails if
# one carries no note that bounds it. POINTS=100 SEED=7 scripts/nightly/scan.sh takes others.
set -eu
cd "$(dirname "$0")/../.."
exec cargo test --release -p netcliff-lab --test scan -- --ignored --nocapture
