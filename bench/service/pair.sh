#!/usr/bin/env bash
# pair.sh up|down: two namespaces as those of `find --service`: ncd-snd (CPU 0) and ncd-hut (CPU 1), a veth pair without GRO, RPS of each end to its CPU.
set -euo pipefail
case "${1:-}" in
    up)
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
        ;;
    down)
        ip netns del ncd-snd
        ip netns del ncd-hut
        ;;
    *)
        echo "usage: pair.sh up|down" >&2
        exit 2
        ;;
esac
