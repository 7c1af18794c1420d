#!/usr/bin/env bash
# ab.sh TRIALS NSD.CONF NAMES MANY RATE...: nsd at equal loads from netcliff's requester (example `trials`) and dnsperf, by turns of one second, three rounds.
# MANY is NAMES repeated. One line a trial: who, load, requests, loss.
set -euo pipefail
trials="$1" conf="$2" names="$3" many="$4"
here="$(dirname "$(realpath "$0")")"
"$here/pair.sh" up
trap 'kill "$service" 2>/dev/null; sleep 0.2; "$here/pair.sh" down' EXIT
taskset -c 1 ip netns exec ncd-hut nsd -d -c "$conf" >/dev/null 2>&1 &
service=$!
sleep 0.7
for _ in 1 2 3; do
    for rate in "${@:5}"; do
        echo "netcliff $(ip netns exec ncd-snd "$trials" 198.18.0.2:53 "dns:$names" 0 1 "$rate")"
        out="$(taskset -c 0 ip netns exec ncd-snd dnsperf -s 198.18.0.2 -d "$many" -l 1 -c 16 -q 65000 -t 0.2 -Q "$rate" 2>&1)"
        awk -v r="$rate" '/Queries sent/ {s=$3} /Queries lost/ {l=$3} /Average Latency/ {a=$0}
            END {printf "dnsperf  %s sent %d loss %.5f %s\n", r, s, (s ? l/s : 1), a}' <<<"$out"
    done
done
