#!/usr/bin/env bash
# link.sh NETCLIFF PAIRS [OPTIONS of stream]: runs pairs.py over a link of 1 Gbit/s between two network namespaces,
# which the script creates and removes. Needs root. The link, and not the scheduling of two CPUs, determines how long a
# transfer takes, so that a difference of 1 % can be measured.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
netcliff=$1 pairs=$2
shift 2
state=$(mktemp -d)
near=ncnear$$ far=ncfar$$ agent=
cleanup() {
    [[ -z "$agent" ]] || kill "$agent" 2>/dev/null || true
    ip netns del "$near" 2>/dev/null || true
    ip netns del "$far" 2>/dev/null || true
    rm -rf "$state"
}
trap cleanup EXIT
ip netns add "$near"
ip netns add "$far"
ip link add eth0 netns "$near" type veth peer name eth0 netns "$far"
number=1
for space in "$near" "$far"; do
    ip -n "$space" address add "10.213.77.$number/24" dev eth0
    ip -n "$space" link set eth0 up
    ip -n "$space" link set lo up
    tc -n "$space" qdisc add dev eth0 root tbf rate 1gbit burst 128kb latency 5ms
    number=2
done
export HOME=$state BYTES=${BYTES:-128MiB}
"$netcliff" agent --make-key "$state/key" 2>/dev/null
ip netns exec "$far" "$netcliff" agent --key "$state/key" --allow-congestion cubic --listen 10.213.77.2:19940 >/dev/null 2>"$state/agent.log" &
agent=$!
sleep 1
ip netns exec "$near" "$here/pairs.py" "$netcliff" "$pairs" --to 10.213.77.2:19940 --key "$state/key" --congestion cubic "$@"
