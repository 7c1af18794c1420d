#!/usr/bin/env bash
# pair.sh up|down: creates or removes two namespaces like those of `find --service`: ncd-snd (CPU 0) and ncd-hut (CPU
# 1), joined by a veth pair without GRO, with RPS of each end to its CPU.
# pair.sh turns TRIALS NSD.CONF NAMES MANY RATE...: in these namespaces, netcliff's requester (example `trials`) and
# dnsperf send the same loads to nsd in turn, one second each, for three rounds. MANY is NAMES repeated. Prints one line
# per trial: generator, load, requests, loss.
set -euo pipefail

up() {
    ip netns add ncd-snd
    ip netns add ncd-hut
    ip -n ncd-snd link add veth0 type veth peer name veth1 netns ncd-hut
    ip -n ncd-snd addr add 198.18.0.1/24 dev veth0
    ip -n ncd-hut addr add 198.18.0.2/24 dev veth1
    for end in "ncd-snd veth0 1" "ncd-hut veth1 2"; do
        read -r netns device cpus <<<"$end"
        ip -n "$netns" link set lo up
        ip -n "$netns" link set "$device" up
        ip netns exec "$netns" ethtool -K "$device" gro off >/dev/null
        ip netns exec "$netns" sh -c "echo $cpus >/sys/class/net/$device/queues/rx-0/rps_cpus"
    done
}

down() {
    ip netns del ncd-snd
    ip netns del ncd-hut
}

turns() {
    local trials="$1" conf="$2" names="$3" many="$4" out
    up
    trap 'kill "${service:-}" 2>/dev/null; sleep 0.2; down' EXIT
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
}

case "${1:-} $#" in
    "up 1" | "down 1" | "turns "[6-9] | "turns "[1-9][0-9]*) "$@" ;;
    *)
        echo "usage: pair.sh up|down, or pair.sh turns TRIALS NSD.CONF NAMES MANY RATE..." >&2
        exit 2
        ;;
esac
