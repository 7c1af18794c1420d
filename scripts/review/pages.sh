#!/usr/bin/env bash
# pages.sh NETCLIFF: checks input and output: command lines, experiment files, pages, the explorer, claims of documents.
# Prints one line per row of the review: `ok`, `WRONG` or `SKIPPED`, the name of the row, and the observation. Exit code
# 1: a row is WRONG.
# shellcheck disable=SC2030,SC2031 # each part is a subshell, with an environment of its own
netcliff="$(realpath "${1:?usage: pages.sh PATH-OF-NETCLIFF}")"
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
# shellcheck source=scripts/lib/review.sh
source scripts/lib/review.sh

# The pages of find and compare, and the explorer: their words, the answer on HTML pages, one statement of accuracy in
# the docs, the explorer's first view, whether it fits into a width of 390 px; and claims of documents.
answers() (
    set -u
    scratch=$(mktemp -d /tmp/c-review.XXXXXX)
    trap 'rm -rf "$scratch"' EXIT
    export XDG_DATA_HOME=$scratch/data NETCLIFF_STATE_DIR=$scratch/state NO_COLOR=1
    mkdir -m 0700 "$XDG_DATA_HOME" "$NETCLIFF_STATE_DIR"
    wrong=0

    # Prints the sentence of a page that gives the median errors of model and simulation, and the worst error.
    accuracy() {
        tr '\n' ' ' <"$1" | tr -s ' ' |
            grep -o 'missed the measured cliff by [0-9.]* % (model) and [0-9.]* % (simulation) in the median, by [0-9.]* % at worst' | head -1
    }

    readme=$(accuracy README.md)
    predict=$(accuracy docs/how-to/predict.md)
    verdict "rank 9" "README: ${readme:-nothing}; predict.md: ${predict:-nothing}" test -n "$readme" -a "$readme" = "$predict"

    said=$(timeout 20 "$netcliff" predict --cliff 2>&1)
    verdict "words, predict" "$(grep -m1 '^left at 2x' <<<"$said")" grep -q '^left at 2x .* of the peak at twice the cliff' <<<"$said"

    for seed in 1 2; do
        timeout 20 "$netcliff" simulate --host pentium4-2530mhz --rate 50kpps --packets 5000 --seed "$seed" --json >"$scratch/$seed.json" 2>"$scratch/errors"
    done
    timeout 20 "$netcliff" compare "$scratch/1.json" "$scratch/2.json" --html "$scratch/c.html" >"$scratch/c.txt" 2>&1
    answer=$(grep -oEm1 'Not enough repeats|No figure was tested|No difference is shown|B is worse in' "$scratch/c.txt")
    verdict "rank 12, compare" "terminal: ${answer:-no answer}" grep -q "${answer:-no answer}" "$scratch/c.html"

    # A prediction from the file of a finding uses the scheme of the run, and says why its cliff differs.
    finding=web/tests/data/find.json
    said=$(timeout 60 "$netcliff" predict --host "$finding" --cliff 2>&1)
    of_run=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["setup"]["scheme"].split(":")[0])' "$finding")
    verdict "rank 25" "$(grep -m1 '^scheme ' <<<"$said")" grep -q "^scheme *$of_run" <<<"$said"
    verdict "rank 11" "$(grep -m1 "run's page" <<<"$said")" grep -q "run's page (model .*) includes .*; this one is for the undisturbed host as calibrated" <<<"$said"
    longest=$(sed 1,2d <<<"$said" | grep -v '^netcliff:' | awk 'length > most {most = length} END {print most}')
    verdict "rank 25, notes" "the longest line has $longest characters" test "$longest" -le 120
    verdict "rank 25, words" "$(grep -c 'random hosts' <<<"$said") notes on random hosts" test "$(grep -c 'random hosts' <<<"$said")" = 0

    timeout 20 "$netcliff" simulate --host pentium4-2530mhz --rates 20kpps,10kpps,30kpps --packets 5000 --db "$scratch/loads.db" >/dev/null 2>&1
    for form in "" -v --csv; do
        # shellcheck disable=SC2086 # none or one option
        loads=$(timeout 20 "$netcliff" results show 1 --db "$scratch/loads.db" $form 2>&1 | grep -oE '\b[123]0(\.0)? kpps|\b[123]0000\b' | grep -oE '^[123]' | uniq | tr -d '\n')
        verdict "rank 23 $form" "loads in the order $loads" grep -q 123 <<<"$loads"
    done

    # The page of the same finding: one confidence per figure, and its words.
    timeout 20 "$netcliff" results import "$finding" --db "$scratch/find.db" >/dev/null 2>&1
    page=$(timeout 20 "$netcliff" results show 1 --db "$scratch/find.db" -v 2>&1)
    verdict "words, find" "$(grep -m1 'with pauses' <<<"$page" | tr -s ' ')" grep -q 'with pauses' <<<"$page"
    old=$(grep -cE 'as experienced|held up [0-9]|2 x / peak|leave behind \(|were void' <<<"$page")
    verdict "words, find" "$old old words" test "$old" = 0
    verdict "rank 24" "$(grep -c 'Intervals have' <<<"$page") sentences that name no figure" test "$(grep -c 'Intervals have' <<<"$page")" = 0
    # Claims of documents (SEEDS): one table, marks that can fail, and the bus and sweeps that were missing earlier.
    timeout 20 "$netcliff" run roofline mlfrr --claims "$scratch/claims.md" >/dev/null 2>&1
    rows=$(grep -o ' | yes: \| | no: \|<br>yes: \|<br>no: ' "$scratch/claims.md" | wc -l)
    verdict "claims, table" "$rows rows; $(grep -m1 '^Comparisons' "$scratch/claims.md")" test "$rows" -ge 8
    verdict "claims, roofline" "$(grep -m1 'raw' "$scratch/claims.md" | cut -d'|' -f3-4)" grep -q 'raw.*8.5.* | yes' "$scratch/claims.md"
    sed 's/^ratio = "0.9..1"/ratio = "0..1"/' experiments/roofline.toml >"$scratch/free.toml"
    said=$(timeout 20 "$netcliff" run "$scratch/free.toml" 2>&1)
    verdict "claims, a mark that cannot fail" "$(grep -m1 'cannot' <<<"$said")" grep -q 'line .*cannot fail' <<<"$said"
    sed 's/^x = "127kpps"/x = "120kpps"/; s/hybrid:period=20us,quota=3/&,up=120kpps/' experiments/hybrid.toml >"$scratch/own.toml"
    said=$(timeout 20 "$netcliff" run "$scratch/own.toml" --packets 1000 2>&1)
    verdict "claims, the file's own setting" "$(grep -m1 'own setting' <<<"$said")" grep -q 'up=120kpps is the file' <<<"$said"
    said=$(timeout 20 "$netcliff" limits --bus axi --link 1Gbit/s --sizes 1518B --csv 2>&1)
    verdict "bus axi" "$(tail -1 <<<"$said")" grep -q '1518' <<<"$said"
    said=$(timeout 20 "$netcliff" limits --bus 1GB/s --sizes 1518B 2>&1)
    verdict "bus 1GB/s" "$(grep -m1 'bound by' <<<"$said")" grep -q '645 kpps.*bound by bus' <<<"$said"
    if [[ $(id -u) == 0 ]]; then
        said=$(timeout 60 "$netcliff" run features-one-by-one --repeats 2 --time 50ms 2>&1)
        verdict "rx-checksum on veth" "$(grep -m1 'rx-checksum' <<<"$said")" grep -q 'rx-checksum: it cannot act on a veth' <<<"$said"
        verdict "rx-checksum on veth, no effect" "$(grep -c 'rx-checksum on ->' <<<"$said") effects" test "$(grep -c 'rx-checksum on ->' <<<"$said")" = 0
        before=$(cat /proc/sys/net/core/netdev_max_backlog)
        said=$(timeout 60 "$netcliff" run queues --repeats 2 --time 50ms 2>&1)
        verdict "sweeps, queues" "$(grep -m1 'pfifo:10' <<<"$said" | tr -s ' ')" grep -q 'fq_codel' <<<"$said"
        verdict "sweeps, backlog set back" "$before" test "$before" = "$(cat /proc/sys/net/core/netdev_max_backlog)"
        said=$(timeout 30 "$netcliff" run align --repeats 2 --time 100ms --profile --json 2>/dev/null | grep -c '"load":"align')
        verdict "52.1, run --profile" "$said profiles by configuration" test "$said" -ge 4
    else
        echo "SKIPPED sweeps, run --profile: need root"
    fi
    said=$(timeout 10 "$netcliff" find --testbed vm:e1000e --profile 2>&1)
    verdict "52.1, find --profile of a guest" "$said" grep -q 'a guest is under test' <<<"$said"
    said=$(timeout 10 "$netcliff" run mlfrr --profile 2>&1)
    verdict "52.1, run --profile of formulas" "$said" grep -q 'no load to profile' <<<"$said"
    # The explorer in Chromium: each row is a test of web/tests/page.mjs.
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
    if [[ -z "$browser" ]] || ! command -v node >/dev/null || ! [[ -d web/node_modules/playwright-core ]]; then
        echo "SKIPPED rank 10, 11, 15, 16, explorer: needs chromium, node and web/node_modules (make web)"
        exit "$wrong"
    fi
    tested=$(cd web && CHROMIUM="$browser" timeout 120 node tests/page.mjs "$netcliff" --shots "$scratch/shots" --only 'empty store|newest record|agree|read out' 2>&1)
    # Arguments: the row, and a pattern of the test's name.
    explorer() {
        local said
        said=$(grep -m1 -E "^(ok|FAILED) .*$2" <<<"$tested")
        verdict "$1" "${said:-no test ran}" grep -q '^ok ' <<<"$said"
    }
    explorer "rank 10, opens on" "newest record of this host"
    explorer "rank 10, empty store" "an empty store"
    explorer "rank 11, rank 15" "agree, and are whole at 390 px"
    explorer "rank 16" "no figure is read out without its interval"

    exit "$wrong"
)

# The command line, experiment files and the neighbours that rfc2544 resolves.
command_lines() (
    set -uo pipefail
    work="$(mktemp -d)"
    chmod 700 "$work"
    export XDG_DATA_HOME="$work" NETCLIFF_STATE_DIR="$work/state"
    mkdir -m 700 "$work/state"
    wrong=0
    tester="frt$$" router="frr$$"
    agent=""

    # shellcheck disable=SC2317  # called by trap
    cleanup() {
        [[ -z "$agent" ]] || kill "$agent" 2>/dev/null
        ip netns del "$tester" 2>/dev/null
        ip netns del "$router" 2>/dev/null
        rm -rf "$work"
    }
    trap cleanup EXIT

    # row NAME PATTERN COMMAND...: the row is right if the output of the command matches.
    row() {
        local name="$1" pattern="$2" said
        shift 2
        said="$(timeout 40 "$@" 2>&1)"
        if grep -qE -- "$pattern" <<<"$said"; then
            echo "ok $name: $(grep -m1 -E -- "$pattern" <<<"$said")"
        else
            echo "WRONG $name: $(tail -n 2 <<<"$said" | tr '\n' ' ')"
            wrong=1
        fi
    }

    "$netcliff" stream -s -p 9876 >"$work/agent" 2>&1 &
    agent=$!
    for _ in {1..50}; do grep -q listens "$work/agent" || sleep 0.1; done
    row 14-server 'admitted' cat "$work/agent"
    row 14-client 'Goodput' "$netcliff" stream -c 127.0.0.1 -p 9876 -u -b 10M -t 0.2 --repeats 1
    row 14-rr 'transactions|Latency|latency' "$netcliff" rr -c 127.0.0.1 -p 9876 -t 0.2 --repeats 1
    row 14-hint 'path zerocopy' "$netcliff" stream -Z
    row 14-numbers 'Goodput' "$netcliff" stream --testbed loopback -b 0 -l 128k -w 256k -S 0x10 -t 0.1 --repeats 1
    row 14-rates 'Goodput' "$netcliff" stream --testbed loopback -u -b 10m -t ' 0.1' --repeats 1
    row 14-burst 'leave /100 out' "$netcliff" stream -b 10M/100
    row 14-cport 'the kernel chooses' "$netcliff" stream --cport 5000
    row 14-dscp 'four times the DSCP' "$netcliff" stream --dscp ef
    row 14-tcpdump "filter 'udp port 53'" "$netcliff" drops udp port 53
    row 14-interface '\-\-if NAME' "$netcliff" find -i eth0
    row 14-word '\-\-to HOST' "$netcliff" stream 192.0.2.1
    row 18-two-outputs 'named for two outputs' "$netcliff" run fig-7a --engine model --svg "$work/x" --html "$work/x"
    row 18-dash '/dev/stdout is stdout' "$netcliff" run fig-7a --engine model --svg -
    row 14-predict 'offered load|100 kpps' "$netcliff" predict --scheme interrupt --rate 100k
    row 14-ambiguous 'expected a rate' "$netcliff" predict --rate 100M
    row 18-list 'fig-7a .*Figure 7\(a\)' "$netcliff" run --list
    row 18-csv 'CSV written to' "$netcliff" run fig-7a --engine model --csv "$work/sw.csv"
    row 18-keys 'experiment_keys' cat docs/reference/experiments.md
    row 19-paper 'Salah.*\(2007\)' "$netcliff" run fig-7a --engine model
    row tune-words 'no terminal to confirm' "$netcliff" tune apply --objective latency </dev/null

    awk '/^```toml/ && !done {on = 1; next} /^```/ {if (on) done = 1; on = 0} on' docs/how-to/experiments.md >"$work/sweep.toml"
    row 17-example 'steepest at' "$netcliff" run "$work/sweep.toml" --engine sim --packets 2000

    if [[ "$(id -u)" == 0 ]] && ip netns add "$tester" 2>/dev/null && ip netns add "$router"; then
        ip -n "$tester" link add ta type veth peer name ra address 02:00:00:00:0a:01 netns "$router"
        ip -n "$tester" link add tb type veth peer name rb netns "$router"
        ip -n "$router" addr add 198.18.0.1/16 dev ra
        ip -n "$router" addr add 198.19.0.1/16 dev rb
        for port in ra rb; do ip -n "$router" link set "$port" up; done
        for port in ta tb; do ip -n "$tester" link set "$port" up; done
        ip netns exec "$router" sysctl -qw net.ipv4.ip_forward=1
        # shellcheck disable=SC2054  # the list of CPUs has a comma
        test2544=(ip netns exec "$tester" "$netcliff" rfc2544 loss --tx ta --rx tb --device-mac 02:00:00:00:0a:01 --frames 64
            --trial 50ms --max 2kpps --rest 0s --cpu 0,0)
        row 13-arp 'FRAME LOSS|loss' "${test2544[@]}"
        row 13-resolved 'REACHABLE|STALE|DELAY|PROBE' ip -n "$router" neigh show 198.19.0.2
        ip -n "$router" addr del 198.19.0.1/16 dev rb
        row 13-causes 'network unreachable' "${test2544[@]}"
    else
        echo "SKIPPED 13: needs root and network namespaces"
    fi
    exit "$wrong"
)

answers || ended $?
command_lines || ended $?
exit "$worst"
