#!/usr/bin/env bash
# compare.sh NETCLIFF OUT [RUNS]: runs in turn `find --quick` on the testbed, and between two namespaces by --from and
# by --of. Findings are written to OUT as JSON.
#
# Two veth pairs join the namespaces: one for the load, which is steered to CPU 1 as in the testbed, and one for the
# control connection. Needs root, two CPUs, and no other program running. The script creates the namespaces and removes
# them at its end.
set -euo pipefail
netcliff=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
runs=${3:-2}
near=nctwo-$$-near far=nctwo-$$-far
work=$(mktemp -d)
agents=()

cleanup() {
    [ "${#agents[@]}" = 0 ] || kill "${agents[@]}" 2>/dev/null || true
    ip netns del "$near" 2>/dev/null || true
    ip netns del "$far" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

ip netns add "$near"
ip netns add "$far"
for link in data control; do
    ip link add $link netns "$near" type veth peer name $link netns "$far"
done
ip -n "$near" addr add 10.77.1.1/24 dev data
ip -n "$far" addr add 10.77.1.2/24 dev data
ip -n "$near" addr add 10.77.2.1/24 dev control
ip -n "$far" addr add 10.77.2.2/24 dev control
for space in "$near" "$far"; do
    for device in lo data control; do ip -n "$space" link set $device up; done
    ip -n "$space" link set data mtu 9000
done
ip netns exec "$far" sh -c 'echo 2 >/sys/class/net/data/queues/rx-0/rps_cpus'

# Runs netcliff in a namespace, with a separate home and state directory.
inside() {
    local space=$1
    shift
    ip netns exec "$space" env -u XDG_DATA_HOME HOME="$work/$space" NETCLIFF_STATE_DIR="$work/$space/state" "$netcliff" "$@"
}
mkdir -p "$work/$near" "$work/$far"
inside "$near" agent --make-key "$work/key" 2>/dev/null
inside "$near" agent --listen 10.77.2.1:9940 --key "$work/key" --allow-find data 2>"$out/agent-near.err" &
agents+=($!)
inside "$far" agent --listen 10.77.2.2:9940 --key "$work/key" --allow-find data 2>"$out/agent-far.err" &
agents+=($!)
sleep 1
for seed in $(seq "$runs"); do
    find=(find --quick --no-store --json --seed "$seed")
    "$netcliff" "${find[@]}" >"$out/testbed-$seed.json" 2>"$out/testbed-$seed.err" || true
    inside "$far" "${find[@]}" --if data --from 10.77.2.1 --key "$work/key" --sender-cpu 0 >"$out/from-$seed.json" 2>"$out/from-$seed.err" || true
    inside "$near" "${find[@]}" --if data --of 10.77.2.2 --key "$work/key" --sender-cpu 0 >"$out/of-$seed.json" 2>"$out/of-$seed.err" || true
done
