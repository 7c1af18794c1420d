#!/bin/sh
# Model against simulator at 2000 random points over all schemes and options, in minutes; prints each disagreement beyond chance and
# fails if a figure that is said to be exact differs, or one by more than its note tells. POINTS=100 SEED=7 scripts/nightly/scan.sh takes others.
set -eu
cd "$(dirname "$0")/../.."
exec cargo test --release -p netcliff-lab --test lab scan:: -- --ignored --nocapture
