#!/usr/bin/env bash
# Kills netcliff (SIGKILL) while it changes this host, starts the next one, and compares the host with what it was before.
#
#   scripts/attack/kills.sh [KILLS] [BINARY]      KILLS: 200; BINARY: target/release/netcliff
#
# Root only. Every kill comes at a random time: `find` at 12 s to 60 s, the commands that are shorter within their first
# seconds. Needs iproute2; runs in a network namespace of its own but for what belongs to the whole host (sysctls, cgroups, XDP
# and tc of the devices there are), which is what is compared. A seed in SEED repeats the times. Exit 1: something was left.
set -euo pipefail

kills=${1:-200}
netcliff=$(realpath "${2:-target/release/netcliff}")
seed=${SEED:-$RANDOM}
RANDOM=$seed
[ "$(id -u)" = 0 ] || { echo "root is needed" >&2; exit 2; }

work=$(mktemp -d)
space=nckills-$$
export NETCLIFF_STATE_DIR=$work/state HOME=$work XDG_DATA_HOME=$work/data
running=
cleanup() {
    [ -z "$running" ] || kill -KILL "$running" 2>/dev/null || true
    "$netcliff" tune undo >/dev/null 2>&1 || true
    ip netns del "$space" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
# A device to tune, and two ports to forward between.
ip netns add "$space"
inside() { ip netns exec "$space" "$@"; }
inside ip link add v0 numrxqueues 2 numtxqueues 2 type veth peer name v1
inside ip link set v0 up
inside ip link set v1 up

# All that netcliff changes anywhere.
host() {
    # Of these runs only: others may be at work here.
    echo "== namespaces"; while read -r pid; do ls -d /run/netns/nc-"$pid"-* 2>/dev/null || true; done <"$work/pids"
    echo "== links"; ip -o link | sed 's/[0-9]*: //; s/ state .*//'; inside ip -o link | sed 's/[0-9]*: //; s/ state .*//'
    echo "== xdp, tc"; ip -o -d link | grep -o 'prog/xdp.*' || true; tc qdisc show; inside tc qdisc show
    echo "== sysctls"; sysctl -a 2>/dev/null | grep -E '^net\.(core|ipv4\.(tcp|udp|ip_forward))' |
        grep -vE 'nr_|random|tcp_fastopen_key|flow_limit_cpu' || true
    inside sysctl -a 2>/dev/null | grep -E '^net\.(core|ipv4|ipv6)' | grep -vE 'neigh|random|mtu_expires|fastopen_key|stable_secret' || true
    echo "== offloads"; inside ethtool -k v0 2>/dev/null || true; inside ethtool -l v0 2>/dev/null || true
    echo "== queues"
    # shellcheck disable=SC2016 # the inner shell expands them
    inside sh -c 'mount -t sysfs none /sys 2>/dev/null
        for f in /sys/class/net/v0/queues/*/*ps_cpus /sys/class/net/v0/gro_flush_timeout; do
            [ -r "$f" ] && echo "$f $(cat "$f" 2>/dev/null)"; done' || true
    echo "== interrupts"; grep -H . /proc/irq/*/smp_affinity_list 2>/dev/null || true
    echo "== governors"; cat /sys/devices/system/cpu/cpufreq/policy*/scaling_governor 2>/dev/null || true
    cat /sys/devices/system/cpu/cpu*/cpuidle/state*/disable 2>/dev/null || true
    echo "== cgroups"; find /sys/fs/cgroup -maxdepth 2 -type d -name '*netcliff*' 2>/dev/null || true
    echo "== processes"; { grep -lszF "NETCLIFF_STATE_DIR=$work/state" /proc/[0-9]*/environ || true; } | while read -r file; do
        tr '\0' ' ' <"${file%environ}cmdline" | grep -F "$netcliff" || true
    done
}

# Name, earliest and latest time of the kill (ms), whether in the namespace, arguments.
attacks=(
    "find 12000 60000 no find --no-store --html $work/page.html"
    "find 12000 60000 no find --no-store --html $work/page.html"
    "rr 50 3000 no rr --testbed netns --time 2s"
    "stream 50 4000 no stream --testbed netns --time 1s"
    "rfc2544 50 8000 no rfc2544 throughput --trial 1s"
    "run 50 5000 no run shared-threads --time 50ms"
    "tune 1 400 yes tune apply --yes --objective throughput --if v0 --mtu 1400"
    "try 50 4000 yes tune try --objective throughput --if v0 --mtu 1400 -- sleep 0.2"
)

touch "$work/pids"
host >"$work/before"
left=0
for ((n = 1; n <= kills; n++)); do
    read -r name from to in arguments <<<"${attacks[RANDOM % ${#attacks[@]}]}"
    at=$((from + (RANDOM * 32768 + RANDOM) % (to - from + 1)))
    within=()
    [ "$in" = no ] || within=(ip netns exec "$space")
    # shellcheck disable=SC2086 # words without blanks of their own
    "${within[@]}" "$netcliff" $arguments >"$work/out" 2>&1 &
    running=$!
    echo "$running" >>"$work/pids"
    sleep "$(printf '%d.%03d' $((at / 1000)) $((at % 1000)))"
    fate=killed
    kill -KILL "$running" 2>/dev/null || fate="had ended"
    code=0
    wait "$running" 2>/dev/null || code=$?
    running=
    [ "$code" != 2 ] || { echo "kill $n: $name is no command:"; cat "$work/out"; exit 2; }
    # The next start, and what `apply` had made to stay.
    "${within[@]}" "$netcliff" tune undo >"$work/undo" 2>&1 || { echo "kill $n: tune undo failed"; cat "$work/undo"; left=$((left + 1)); }
    host >"$work/after"
    if ! diff -u "$work/before" "$work/after" >"$work/diff"; then
        left=$((left + 1))
        echo "kill $n: $name at $at ms ($fate) left:"
        cat "$work/diff"
        cp "$work/after" "$work/before"
    else
        echo "kill $n: $name at $at ms ($fate): as found"
    fi
done
echo "seed $seed: $kills kills, $left left something"
[ "$left" = 0 ]
