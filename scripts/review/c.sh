#!/bin/bash
# Rows of the page of find and of compare: the words, the answer on HTML pages, one accuracy in the docs.
# Usage: c.sh NETCLIFF
set -u
program=$(realpath "${1:?usage: c.sh PATH-OF-NETCLIFF}")
cd "$(dirname "$0")/../.." || exit 2
scratch=$(mktemp -d /tmp/c-review.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
export XDG_DATA_HOME=$scratch/data NETCLIFF_STATE_DIR=$scratch/state NO_COLOR=1
mkdir -m 0700 "$XDG_DATA_HOME" "$NETCLIFF_STATE_DIR"
wrong=0

# Prints the outcome of a row. Arguments: its name, what was seen, and a command that is true if it holds.
row() {
    local name=$1 seen=$2
    shift 2
    if "$@"; then
        echo "ok $name: $seen"
    else
        echo "WRONG $name: $seen"
        wrong=1
    fi
}

# The medians of the model and the simulation, and the worst, as the page states them first.
accuracy() {
    tr '\n' ' ' <"$1" | tr -s ' ' |
        grep -o 'missed the measured cliff by [0-9.]* % (model) and [0-9.]* % (simulation) in the median, by [0-9.]* % at worst' | head -1
}

readme=$(accuracy README.md)
predict=$(accuracy docs/how-to/predict.md)
row "rank 9" "README: ${readme:-nothing}; predict.md: ${predict:-nothing}" test -n "$readme" -a "$readme" = "$predict"

said=$(timeout 20 "$program" predict --cliff 2>&1)
row "words, predict" "$(grep -m1 '^livelock' <<<"$said")" grep -q 'at twice the cliff .* of the peak is delivered' <<<"$said"

for seed in 1 2; do
    timeout 20 "$program" simulate --host pentium4-2530mhz --rate 50kpps --packets 5000 --seed "$seed" --json >"$scratch/$seed.json" 2>"$scratch/errors"
done
timeout 20 "$program" compare "$scratch/1.json" "$scratch/2.json" --html "$scratch/c.html" >"$scratch/c.txt" 2>&1
answer=$(grep -oEm1 'Nothing can be said|No difference is shown|B is worse in' "$scratch/c.txt")
row "rank 12, compare" "terminal: ${answer:-no answer}" grep -q "${answer:-no answer}" "$scratch/c.html"

exit "$wrong"
