#!/bin/bash
# Rows of the page of find, of compare and of the explorer: the words, the answer on HTML pages, one accuracy in the docs, what the explorer
# opens on and whether it is whole at 390 px; the claims of documents.
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

# What a finding's file says, computed anew: its scheme, and why the cliff is another one.
finding=web/tests/data/find.json
said=$(timeout 60 "$program" predict --host "$finding" --cliff 2>&1)
of_run=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["setup"]["scheme"].split(":")[0])' "$finding")
row "rank 25" "$(grep -m1 'scheme:' <<<"$said")" grep -q "scheme: $of_run.*that of the run" <<<"$said"
row "rank 11" "$(grep -m1 "page's cliff" <<<"$said")" grep -q "page's cliff (model .*) includes .*; this one is for the undisturbed host as calibrated" <<<"$said"
longest=$(sed 1,2d <<<"$said" | grep -v '^netcliff:' | awk 'length > most {most = length} END {print most}')
row "rank 25, notes" "the longest line has $longest characters" test "$longest" -le 120
row "rank 25, words" "$(grep -c 'random hosts' <<<"$said") notes on random hosts" test "$(grep -c 'random hosts' <<<"$said")" = 0

timeout 20 "$program" simulate --host pentium4-2530mhz --rates 20kpps,10kpps,30kpps --packets 5000 --db "$scratch/loads.db" >/dev/null 2>&1
for form in "" -v --csv; do
    # shellcheck disable=SC2086 # none or one option
    loads=$(timeout 20 "$program" results show 1 --db "$scratch/loads.db" $form 2>&1 | grep -oE '\b[123]0(\.0)? kpps|\b[123]0000\b' | grep -oE '^[123]' | uniq | tr -d '\n')
    row "rank 23 $form" "loads in the order $loads" grep -q 123 <<<"$loads"
done

# The page of the same finding: one confidence a figure, and the words.
timeout 20 "$program" results import "$finding" --db "$scratch/find.db" >/dev/null 2>&1
page=$(timeout 20 "$program" results show 1 --db "$scratch/find.db" -v 2>&1)
row "words, find" "$(grep -m1 'with pauses' <<<"$page" | tr -s ' ')" grep -q 'with pauses' <<<"$page"
old=$(grep -cE 'as experienced|held up [0-9]|2 x / peak|leave behind \(|were void' <<<"$page")
row "words, find" "$old old words" test "$old" = 0
row "rank 24" "$(grep -c 'Intervals have' <<<"$page") sentences that name no figure" test "$(grep -c 'Intervals have' <<<"$page")" = 0
# Claims of documents (SEEDS): one table, marks that can fail, and the bus and sweeps that were missing.
timeout 20 "$program" run roofline mlfrr --claims "$scratch/claims.md" >/dev/null 2>&1
rows=$(grep -o ' | yes: \| | no: \|<br>yes: \|<br>no: ' "$scratch/claims.md" | wc -l)
row "claims, table" "$rows rows; $(grep -m1 '^Comparisons' "$scratch/claims.md")" test "$rows" -ge 8
row "claims, roofline" "$(grep -m1 'raw' "$scratch/claims.md" | cut -d'|' -f3-4)" grep -q 'raw.*8.5.* | yes' "$scratch/claims.md"
sed 's/^ratio = "0.9..1"/ratio = "0..1"/' experiments/roofline.toml >"$scratch/free.toml"
said=$(timeout 20 "$program" run "$scratch/free.toml" 2>&1)
row "claims, a mark that cannot fail" "$(grep -m1 'cannot' <<<"$said")" grep -q 'line .*cannot fail' <<<"$said"
sed 's/^x = "127kpps"/x = "120kpps"/' experiments/hybrid.toml >"$scratch/own.toml"
said=$(timeout 20 "$program" run "$scratch/own.toml" --packets 1000 2>&1)
row "claims, the file's own setting" "$(grep -m1 'own setting' <<<"$said")" grep -q 'up=120kpps is the file' <<<"$said"
said=$(timeout 20 "$program" limits --bus axi --link 1Gbit/s --sizes 1518B --csv 2>&1)
row "bus axi" "$(tail -1 <<<"$said")" grep -q '1518' <<<"$said"
said=$(timeout 20 "$program" limits --bus 1GB/s --sizes 1518B 2>&1)
row "bus 1GB/s" "$(grep -m1 'bound by' <<<"$said")" grep -q '645 kpps.*bound by bus' <<<"$said"
if [[ $(id -u) == 0 ]]; then
    said=$(timeout 60 "$program" run features-one-by-one --repeats 2 --time 50ms 2>&1)
    row "rx-checksum on veth" "$(grep -m1 'rx-checksum' <<<"$said")" grep -q 'rx-checksum: it cannot act on a veth' <<<"$said"
    row "rx-checksum on veth, no effect" "$(grep -c 'rx-checksum on ->' <<<"$said") effects" test "$(grep -c 'rx-checksum on ->' <<<"$said")" = 0
    before=$(cat /proc/sys/net/core/netdev_max_backlog)
    said=$(timeout 60 "$program" run queues --repeats 2 --time 50ms 2>&1)
    row "sweeps, queues" "$(grep -m1 'pfifo:10' <<<"$said" | tr -s ' ')" grep -q 'fq_codel' <<<"$said"
    row "sweeps, backlog set back" "$before" test "$before" = "$(cat /proc/sys/net/core/netdev_max_backlog)"
    said=$(timeout 30 "$program" run align --repeats 2 --time 100ms --profile --json 2>/dev/null | grep -c '"load":"align')
    row "52.1, run --profile" "$said profiles by configuration" test "$said" -ge 4
else
    echo "SKIPPED sweeps, run --profile: need root"
fi
said=$(timeout 10 "$program" find --testbed vm:e1000e --profile 2>&1)
row "52.1, find --profile of a guest" "$said" grep -q 'a guest is under test' <<<"$said"
said=$(timeout 10 "$program" run mlfrr --profile 2>&1)
row "52.1, run --profile of formulas" "$said" grep -q 'no load to profile' <<<"$said"
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
