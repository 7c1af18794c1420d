#!/bin/bash
# Rows of the page of find, of compare and of the explorer: the words, the answer on HTML pages, one accuracy in the docs, what the explorer
# opens on and whether it is whole at 390 px.
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

# The explorer in Chromium: each row is a test of web/tests/page.mjs.
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [[ -z "$browser" ]] || ! command -v node >/dev/null || ! [[ -d web/node_modules/playwright-core ]]; then
    echo "SKIPPED rank 10, 11, 15, 16, explorer: needs chromium, node and web/node_modules (make web)"
    exit "$wrong"
fi
tested=$(cd web && CHROMIUM="$browser" timeout 120 node tests/page.mjs "$program" --shots "$scratch/shots" --only 'empty store|newest record|agree|read out' 2>&1)
# Arguments: the row, a pattern of the test's name.
explorer() {
    local said
    said=$(grep -m1 -E "^(ok|FAILED) .*$2" <<<"$tested")
    row "$1" "${said:-no test ran}" grep -q '^ok ' <<<"$said"
}
explorer "rank 10, opens on" "newest record of this host"
explorer "rank 10, empty store" "an empty store"
explorer "rank 11, rank 15" "agree, and are whole at 390 px"
explorer "rank 16" "no figure is read out without its interval"

exit "$wrong"
