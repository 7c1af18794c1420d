#!/usr/bin/env bash
# Kills netcliff (SIGKILL) while it changes this host, starts it again, and compares the state of the host with the
# state before.
#
#   scripts/attack/kills.sh [KILLS] [BINARY]      KILLS: 200; BINARY: target/release/netcliff
#
# Needs root, iproute2, ethtool and util-linux. Every kill comes at a random time: for `find` after 12 to 60 s, or
# within 15 s after it has changed a sysctl; for shorter commands within their first seconds. Prints one line per kill,
# then a table. Exit code 1: a change was left behind.
#   SEED=N             repeats the times of an earlier run
#   WORKERS=2          number of workers that run at the same time. The first kills a `find` that changes sysctls of the
#                      whole host. Each of the others has a separate network and mount namespace, where it kills all
#                      other commands, which use the worker's devices.
#   ONLY=NAME          kills only this command
#   PAUSE_WHILE=FILE   starts no further run while this file exists
#
# Other programs may change the host at the same time. Of the settings of the whole host, only those that the killed
# run's journal names are therefore compared. Everything that belongs to a worker (its namespaces, devices, processes,
# journals) is compared completely.
set -euo pipefail

# Each entry: name, text that the journal must contain before the time starts (- for none), earliest and latest time of
# the kill (ms), arguments.
of_host=(
    "find-checks sysctl_changed 0 15000 find --quick --no-store --check backlog=200 --check budget=64"
)
of_namespace=(
    "find - 12000 60000 find --no-store --html WORK/page.html"
    "find - 12000 60000 find --quick --no-store"
    "find - 12000 60000 find --no-store"
    "rr - 50 3000 rr --testbed netns --time 2s"
    "stream - 50 4000 stream --testbed netns --time 1s"
    "rfc2544 - 50 8000 rfc2544 throughput --trial 1s"
    "run - 50 5000 run shared-threads --time 50ms"
    "tune - 3 60 tune apply --yes --objective throughput --if v0 --mtu 1400"
    "try - 30 2300 tune try --objective throughput --if v0 --mtu 1400 -- WORK/figure"
)

# Prints the settings of the whole host, one line each: file and value.
of_whole_host() {
    grep -H . /proc/sys/net/core/* /proc/irq/*/smp_affinity_list /sys/devices/system/cpu/cpufreq/policy*/scaling_governor \
        /sys/devices/system/cpu/cpu*/cpuidle/state*/disable 2>/dev/null | sed 's/:/ /' | sort || true
}

# Prints the state that only this worker changes. $1: where it runs (host, namespace); $2: its directory.
of_worker() {
    echo "== namespaces"
    if [ "$1" = host ]; then
        while read -r pid; do ls -d /run/netns/nc-"$pid"-* 2>/dev/null || true; done <"$2/pids"
    else
        ls /run/netns
        echo "== links"; ip -o -d link | sed 's/ state .*//'
        echo "== addresses"; ip -o addr
        echo "== qdiscs"; tc qdisc show
        echo "== sysctls"; sysctl -a 2>/dev/null | grep -E '^net\.' |
            grep -vE 'neigh|random|mtu_expires|fastopen_key|stable_secret|route.gc|nr_|nf_conntrack' || true
        echo "== offloads, channels"; ethtool -k v0; ethtool -l v0 2>/dev/null || true
        echo "== queues"; grep -H . /sys/class/net/v0/queues/*/*ps_* /sys/class/net/v0/{gro_flush_timeout,threaded,flags,mtu} \
            2>/dev/null || true
    fi
    echo "== journals"; find "$2/state" -name '*.jsonl' 2>/dev/null || true
    echo "== processes"; { grep -lszF "NETCLIFF_STATE_DIR=$2/state" /proc/[0-9]*/environ || true; } | while read -r file; do
        tr '\0' ' ' <"${file%environ}cmdline" | grep -F "$netcliff" || true
    done
}

# Runs one worker. $1: host or namespace; $2: its directory; $3: number of kills; $4: its seed.
worker() {
    local in=$1 work=$2 kills=$3 left=0 n name awaited from to arguments at fate code running attacks begun waited
    RANDOM=$4
    export NETCLIFF_STATE_DIR=$work/state HOME=$work XDG_DATA_HOME=$work/data
    if [ "$in" = namespace ]; then
        attacks=("${of_namespace[@]}")
        mount --make-rprivate /
        mkdir -p /run/netns
        mount -t tmpfs none /run/netns
        mount -t sysfs none /sys
        mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null || true
        mount -t bpf none /sys/fs/bpf 2>/dev/null || true
        ip link set lo up
        ip link add v0 numrxqueues 2 numtxqueues 2 type veth peer name v1
        ip link set v0 up
        ip link set v1 up
        # The kernel adds link-local addresses only after some time.
        sleep 3
    else
        attacks=("${of_host[@]}")
    fi
    if [ -n "${ONLY:-}" ]; then
        mapfile -t attacks < <(printf '%s\n' "${attacks[@]}" | grep "^$ONLY ")
        [ "${#attacks[@]}" -gt 0 ] || { echo "$in: no command $ONLY here"; return 0; }
    fi
    touch "$work/pids"
    printf '#!/bin/sh\nsleep 0.2\necho 1\n' >"$work/figure"
    chmod +x "$work/figure"
    # The first start leaves things behind that are meant to stay: the state directory, and `/run/netns` as a mount
    # point.
    "$netcliff" tune undo >/dev/null 2>&1 || true
    [ "$in" = host ] || { "$netcliff" rr --testbed netns --time 50ms --no-store >/dev/null 2>&1 || true; }
    of_worker "$in" "$work" >"$work/before"
    for ((n = 1; n <= kills; n++)); do
        while [ -n "${PAUSE_WHILE:-}" ] && [ -e "$PAUSE_WHILE" ]; do sleep 2; done
        read -r name awaited from to arguments <<<"${attacks[RANDOM % ${#attacks[@]}]}"
        arguments=${arguments//WORK/$work}
        at=$((from + (RANDOM * 32768 + RANDOM) % (to - from + 1)))
        of_whole_host >"$work/host.before"
        # shellcheck disable=SC2086 # words without blanks of their own
        "$netcliff" $arguments >"$work/out" 2>&1 &
        running=$!
        echo "$running" >>"$work/pids"
        begun=$SECONDS
        while [ "$awaited" != - ] && ! grep -qsF "$awaited" "$work"/state/journal/*.jsonl && kill -0 "$running" 2>/dev/null; do
            sleep 0.003
        done
        waited=$((SECONDS - begun))
        sleep "$(printf '%d.%03d' $((at / 1000)) $((at % 1000)))"
        fate=killed
        kill -KILL "$running" 2>/dev/null || fate="had ended"
        code=0
        wait "$running" 2>/dev/null || code=$?
        ! { [ "$code" = 2 ] && grep -qE '^(error|Usage):' "$work/out"; } || { echo "$in kill $n: $name is no command:"; cat "$work/out"; return 2; }
        # The changes that the killed run had recorded in its journal.
        cat "$work"/state/journal/*.jsonl "$work"/state/tuned/*.jsonl >"$work/journal" 2>/dev/null || true
        # Start netcliff again. This also undoes the changes of a completed `apply`, which it leaves in place.
        result="as found"
        "$netcliff" tune undo >"$work/undo" 2>&1 || { result=LEFT; echo "$in kill $n: tune undo failed:"; cat "$work/undo"; }
        of_worker "$in" "$work" >"$work/after"
        diff -u "$work/before" "$work/after" >"$work/diff" || { result=LEFT; cat "$work/diff"; cp "$work/after" "$work/before"; }
        of_whole_host >"$work/host.after"
        others=0
        while read -r sign file value; do
            if grep -qF "\"$file\"" "$work/journal"; then
                result=LEFT
                echo "$in kill $n: $sign $file $value"
            else
                others=$((others + 1))
            fi
        done < <(diff "$work/host.before" "$work/host.after" | grep '^[<>]' || true)
        [ "$result" = "as found" ] || left=$((left + 1))
        echo "$in kill $n: $name at $((waited * 1000 + at)) ms: $fate: $(grep -c '"change"' "$work/journal" || true) changes written down: $result" \
            "$([ "$others" = 0 ] || echo "($others lines of the host's settings changed by others)")"
    done
    [ "$left" = 0 ]
}

netcliff=$(realpath "${BINARY:-${2:-target/release/netcliff}}")
if [ "${1:-}" = --worker ]; then
    shift
    worker "$@"
    exit
fi

kills=${1:-200}
seed=${SEED:-$RANDOM}
workers=${WORKERS:-2}
[ "$(id -u)" = 0 ] || { echo "root is needed" >&2; exit 2; }
top=$(mktemp -d)
chmod 0700 "$top"
pids=()
# On a busy host, a killed process takes seconds to end. Until then, `tune undo` leaves its changes alone.
# shellcheck disable=SC2317 # the trap calls it
set_back() {
    for _ in $(seq 40); do
        NETCLIFF_STATE_DIR=$1 "$netcliff" tune undo >/dev/null 2>&1 || true
        [ -n "$(find "$1" -name '*.jsonl')" ] || return 0
        sleep 0.5
    done
    echo "not set back: run NETCLIFF_STATE_DIR=$1 $netcliff tune undo" >&2
    return 1
}
# shellcheck disable=SC2317 # the trap calls it
cleanup() {
    for pid in "${pids[@]}"; do kill -KILL -- "-$pid" 2>/dev/null || kill -KILL "$pid" 2>/dev/null || true; done
    for state in "$top"/*/state; do [ ! -d "$state" ] || set_back "$state" || return 0; done
    rm -rf "$top"
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP
set -m
for ((w = 0; w < workers; w++)); do
    mkdir "$top/$w"
    # The first worker gets fewer kills, because each of its runs is a `find`, which takes longer.
    share=$((kills / (workers + 3)))
    [ "$w" = 0 ] || share=$(((kills - share) / (workers - 1)))
    [ -z "${ONLY:-}" ] || share=$kills
    [ "$workers" -gt 1 ] || share=$kills
    if [ "$w" = 0 ]; then
        BINARY=$netcliff "$0" --worker host "$top/$w" "$share" "$((seed + w))" >"$top/$w.log" 2>&1 &
    else
        BINARY=$netcliff unshare --net --mount --fork --kill-child \
            "$0" --worker namespace "$top/$w" "$share" "$((seed + w))" >"$top/$w.log" 2>&1 &
    fi
    pids+=($!)
done
set +m
tail -q -n +1 -F "$top"/*.log 2>/dev/null &
tail=$!
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
sleep 1
kill "$tail" 2>/dev/null || true
echo "== seed $seed; command: kills as found, kills after which something was left, runs that had ended before"
cat "$top"/*.log | sed -nE 's/^(host|namespace) kill [0-9]+: ([a-z0-9-]+) at [0-9]+ ms: (killed|had ended): .*: (as found|LEFT).*/\2 \3 \4/p' |
    awk '{ all[$1]; $0 ~ /had ended/ ? ended[$1]++ : $0 ~ /LEFT/ ? left[$1]++ : clean[$1]++ }
        END { for (name in all) printf "%-12s %4d %4d %4d\n", name, clean[name], left[name], ended[name] }' | sort
exit $failed
