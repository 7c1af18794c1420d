#!/usr/bin/env bash
# dependencies.sh: checks that docs/dependencies.md has a row with a reason for every third-party crate that the
# workspace names, and no other row.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh
find_cargo

# Every crate of the workspace table (which may list a crate that no workspace crate uses yet) and every direct
# dependency.
used() {
    {
        awk -F '[ =]+' '/^\[/ { inside = ($0 == "[workspace.dependencies]") } inside && /^[a-z]/ { print $1 }' Cargo.toml
        "$CARGO" tree --workspace --all-features --locked --depth 1 --no-dedupe --prefix depth --format ' {p}' |
            awk '$1 == 1 { print $2 }'
    } | grep -v '^netcliff' | sort -u
}

# A row is: | `crate` | where | why |
listed() {
    # shellcheck disable=SC2016 # the backquotes are Markdown
    sed -n 's/^| *`\([A-Za-z0-9_-]*\)` *|[^|]*[^| ][^|]*|[^|]*[^| ][^|]*|$/\1/p' docs/dependencies.md | sort -u
}

used_crates="$(used)"
listed_crates="$(listed)"
missing="$(comm -23 <(echo "$used_crates") <(echo "$listed_crates") | xargs)"
stale="$(comm -13 <(echo "$used_crates") <(echo "$listed_crates") | xargs)"
[[ -z "$missing" ]] || echo "docs/dependencies.md: add a row (crate, where, why) for: $missing" >&2
[[ -z "$stale" ]] || echo "docs/dependencies.md: no crate uses these any more, remove the row: $stale" >&2
[[ -z "$missing$stale" ]]
