#!/bin/sh
# Compares model and simulator at 2000 random points over all schemes and options; takes minutes. Prints each
# disagreement that chance does not explain. Fails if a figure that is described as exact differs, or if a figure
# differs by more than its note says. `POINTS=100 SEED=7 scripts/nightly/scan.sh` takes other points.
set -eu
cd "$(dirname "$0")/../.."
exec cargo test --release -p netcliff-lab --test lab scan:: -- --ignored --nocapture
