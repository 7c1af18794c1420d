#!/usr/bin/env bash
# arrows.sh: fails if a crate of the workspace uses a crate that ARCHITECTURE.md does not place below it, if the crates
# (including their tests) form a cycle, or if the modules of a crate do. Cargo itself allows cycles through
# dev-dependencies.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh
find_cargo

# The crates that each crate may use. A crate that is missing here fails the check.
declare -A may_use=(
    [netcliff-core]=""
    [netcliff-stats]="netcliff-core"
    [netcliff-mlrsearch]="netcliff-core netcliff-stats"
    [netcliff-model]="netcliff-core"
    [netcliff-sim]="netcliff-core"
    [netcliff-host]="netcliff-core"
    [netcliff-packets]="netcliff-core netcliff-host"
    [netcliff-remote]="netcliff-core netcliff-host netcliff-packets"
    [netcliff-trial]="netcliff-core netcliff-stats netcliff-host netcliff-packets netcliff-remote"
    [netcliff-find]="netcliff-core netcliff-stats netcliff-mlrsearch netcliff-model netcliff-sim netcliff-host netcliff-packets netcliff-remote netcliff-trial"
    [netcliff-rfc2544]="netcliff-core netcliff-stats netcliff-mlrsearch netcliff-model netcliff-host netcliff-packets netcliff-trial netcliff-find"
    [netcliff-transfer]="netcliff-core netcliff-stats netcliff-host netcliff-packets netcliff-remote netcliff-trial"
    [netcliff-lab]="netcliff-core netcliff-stats netcliff-mlrsearch netcliff-model netcliff-sim netcliff-host netcliff-packets netcliff-trial netcliff-find netcliff-rfc2544 netcliff-transfer"
    [netcliff-care]="netcliff-core netcliff-stats netcliff-model netcliff-sim netcliff-host netcliff-find netcliff-rfc2544 netcliff-transfer netcliff-lab"
    [netcliff-service]="netcliff-core netcliff-stats netcliff-mlrsearch netcliff-model netcliff-sim netcliff-host netcliff-packets netcliff-remote netcliff-trial netcliff-transfer"
    [netcliff-learn]="netcliff-core netcliff-stats netcliff-model netcliff-host netcliff-trial netcliff-find"
    [netcliff-profile]="netcliff-core netcliff-stats netcliff-host"
    [netcliff-report]="netcliff-core netcliff-stats netcliff-mlrsearch netcliff-rfc2544 netcliff-transfer netcliff-lab"
    [netcliff-testkit]=""
    [netcliff-wasm]="netcliff-core netcliff-model netcliff-sim"
    [netcliff-python]="netcliff-core netcliff-model netcliff-sim netcliff-lab"
    [netcliff]="netcliff-core netcliff-stats netcliff-mlrsearch netcliff-model netcliff-sim netcliff-host netcliff-packets netcliff-remote netcliff-trial netcliff-find netcliff-rfc2544 netcliff-transfer netcliff-lab netcliff-care netcliff-service netcliff-learn netcliff-profile netcliff-report"
)

# arrows EDGE_KINDS: prints "user used" for each direct use of one workspace crate by another, and "crate -" for each
# crate, so that a crate without dependencies is listed too.
arrows() {
    "$CARGO" tree --workspace --all-features --locked --depth 1 --no-dedupe --prefix depth --edges "$1" \
        --format ' {p}' | awk '
            $1 == 0 { user = $2; print user, "-" }
            $1 == 1 && $2 ~ /^netcliff/ { print user, $2 }' | sort -u
}

failed=0
shipped="$(arrows normal,build)"
while read -r user used; do
    if [[ ! -v may_use[$user] ]]; then
        echo "$user has no place in the table of scripts/checks/arrows.sh" >&2
        failed=1
    elif [[ "$used" != - && " ${may_use[$user]} " != *" $used "* ]]; then
        echo "$user must not use $used; it may use: ${may_use[$user]:-no other room}" >&2
        failed=1
    fi
done <<<"$shipped"

all="$(arrows normal,build,dev)"
if ! cycle="$(awk '$2 != "-" && $1 != $2' <<<"$all" | tsort 2>&1 >/dev/null)"; then
    echo "the crates form a cycle (dev-dependencies count): $(tr '\n' ' ' <<<"$cycle")" >&2
    failed=1
fi
# The modules of each crate must not form a cycle.
python3 scripts/house.py --check >&2 || failed=1
exit "$failed"
