#!/usr/bin/env bash
# licences.sh: checks that the licence of every crate in the dependency tree is satisfied by the list `allow` of
# deny.toml. cargo-deny makes the same check. This script needs only the manifests, so it also runs without cargo-deny.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh
find_cargo

declare -A allowed=()
while read -r licence; do
    allowed["$licence"]=1
done < <(sed -n '/^allow = \[/,/^\]/s/^ *"\(.*\)",$/\1/p' deny.toml)

# satisfied EXPRESSION: evaluates an SPDX expression in which each allowed licence is true.
satisfied() {
    local expression="${1//\// OR }" token licence="" arithmetic=""
    expression="${expression//(/ ( }"
    expression="${expression//)/ ) }"
    for token in $expression END; do
        case "$token" in
        OR | AND | '(' | ')' | END)
            if [[ -n "$licence" ]]; then
                arithmetic+="${allowed[$licence]:-0}"
                licence=""
            fi
            case "$token" in
            OR) arithmetic+='||' ;;
            AND) arithmetic+='&&' ;;
            END) ;;
            *) arithmetic+="$token" ;;
            esac
            ;;
        *) licence+="${licence:+ }$token" ;; # "Apache-2.0 WITH LLVM-exception" is one licence
        esac
    done
    [[ -n "$arithmetic" ]] && ((arithmetic))
}

failed=0
tree="$("$CARGO" tree --workspace --all-features --locked --prefix none --format '{p}|{l}' | sed 's/ (\*)$//' | sort -u)"
while IFS='|' read -r package licence; do
    if ! satisfied "$licence"; then
        echo "${package%% (*}: licence '$licence' is not met by the list in deny.toml" >&2
        failed=1
    fi
done < <(grep . <<<"$tree")
exit "$failed"
