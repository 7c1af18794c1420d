#!/usr/bin/env bash
# tuning.sh NETCLIFF: checks settings of a host: the hybrid of interrupts and polling, and the placement of queues.
# Prints one line per row of the review: `ok`, `WRONG` or `SKIPPED`, the name of the row, and the observation. Exit code
# 1: a row is WRONG.
# shellcheck disable=SC2030,SC2031 # each part is a subshell, with an environment of its own
netcliff="$(realpath "${1:?usage: tuning.sh PATH-OF-NETCLIFF}")"
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
# shellcheck source=scripts/lib/review.sh
source scripts/lib/review.sh

# Row 44 of review document 002 (the hybrid in Linux): netcliff tune adapt on a veth, its end, and a second one on the
# same device. Needs python3, ethtool and ip. Takes at most 60 s.
adapting() (
    set -u
    work=$(mktemp -d /tmp/g-adapt-XXXXXX)
    mkdir -m 700 "$work/state" "$work/other" "$work/data"
    export XDG_DATA_HOME=$work/data NETCLIFF_STATE_DIR=$work/state HOME=$work
    a=gadapt$$"a" b=gadapt$$"b"
    wrong=0

    # shellcheck disable=SC2317,SC2329 # by trap
    clean() {
        for space in "$a" "$b"; do ip netns del "$space" 2>/dev/null; done
        rm -rf "$work"
    }
    trap clean EXIT

    inside() { ip netns exec "$b" "$@"; }
    values() { inside cat /sys/class/net/v1/gro_flush_timeout /sys/class/net/v1/napi_defer_hard_irqs | tr '\n' ' '; }
    has() {
        for _ in $(seq 100); do
            [ "$(values)" = "$1" ] && return 0
            sleep 0.05
        done
        return 1
    }
    load() {
        timeout "$1" ip netns exec "$a" python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    for _ in range(20):
        try: s.sendto(bytes(18), ("10.96.0.2", 9))
        except OSError: pass
    time.sleep(0.001)'
    }

    if ! ip netns add "$a" || ! ip netns add "$b" || ! command -v ethtool >/dev/null; then
        echo "SKIPPED adapt: needs root and ethtool"
        exit 0
    fi
    ip -n "$a" link add v0 type veth peer name v1 netns "$b"
    ip -n "$a" addr add 10.96.0.1/24 dev v0 && ip -n "$a" link set v0 up
    ip -n "$b" addr add 10.96.0.2/24 dev v1 && ip -n "$b" link set v1 up
    ip netns exec "$a" ethtool -K v0 tso off >/dev/null
    inside ethtool -K v1 gro on >/dev/null
    adapt=(tune adapt --if v1 --up 1kpps --down 500pps --hold 200ms)

    inside "$netcliff" "${adapt[@]}" --for 5s --json >"$work/events" 2>"$work/said" &
    adapting=$!
    load 2 &
    has "50000 2 "
    coded adapt-up $? "polling under load: $(values)"
    NETCLIFF_STATE_DIR=$work/other inside "$netcliff" "${adapt[@]}" --for 1s >/dev/null 2>"$work/second"
    [ $? -eq 1 ] && grep -q "another netcliff adapts v1" "$work/second"
    coded adapt-second $? "$(cut -c1-120 "$work/second")"
    has "0 0 "
    coded adapt-down $? "interrupts without load: $(values)"
    wait "$adapting"
    events=$(sed 's/.*"event":"\([a-z]*\)".*/\1/' "$work/events" | tr '\n' ' ')
    [ "$events" = "start switch switch end " ]
    coded adapt-events $? "$events"

    for signal in TERM KILL; do
        ip netns exec "$b" "$netcliff" "${adapt[@]}" >"$work/out" 2>&1 &
        adapting=$!
        load 1 &
        has "50000 2 "
        kill -"$signal" "$adapting"
        wait "$adapting" 2>/dev/null
        [ "$signal" = TERM ] || inside "$netcliff" tune undo >/dev/null 2>&1
        [ "$(values)" = "0 0 " ]
        coded "adapt-$signal" $? "set back: $(values)"
    done
    load 1 &
    inside "$netcliff" "${adapt[@]}" --dry-run --for 1s >"$work/dry" 2>&1
    grep -q "would switch: polls" "$work/dry" && [ "$(values)" = "0 0 " ]
    coded adapt-dry $? "$(tail -1 "$work/dry")"
    exit "$wrong"
)

# The rows about placement in review document 004 (12, 13, 17, 19) and document 000 (17, 23): on a captured igb, on the
# model, and on a veth in a temporary namespace.
placing() (
    set -u
    fixtures=$PWD/crates/host/tests/fixtures
    work=$(mktemp -d /tmp/placing-review.XXXXXX)
    space=placing-review-$$
    export HOME=$work XDG_DATA_HOME=$work/data NETCLIFF_STATE_DIR=$work/state TMPDIR=$work LC_ALL=C.UTF-8
    wrong=0

    # shellcheck disable=SC2317,SC2329  # by trap
    clean() {
        ip netns delete "$space" 2>/dev/null
        rm -rf "$work"
    }
    trap clean EXIT

    cd "$work" || exit 1

    # The captured igb: four receive and four transmit queues, four CPUs.
    mkdir igb
    awk -v dir=igb '/^== / { if (file) close(file); file = dir "/" $2; system("mkdir -p \"$(dirname " file ")\""); next } file { print > file }' "$fixtures/igb.tree"
    places() { "$netcliff" tune plan --objective throughput --if eth0 --design "$1" --from igb --json | grep -o '"name":"eth0 interrupt [^"]*","old":"[^"]*","new":"[^"]*"' | sed 's/.*interrupt \([^"]*\)".*"new":"\([0-9]*\)"/\1=\2/' | paste -sd' '; }
    pairing=$(places pairing) spread=$(places spread)
    # shellcheck disable=SC2317,SC2329  # by verdict
    apart() {
        [ -n "$spread" ] && [ "$pairing" != "$spread" ] || return 1
        for queue in 0 1 2 3; do
            [ "$(grep -o "eth0-rx-$queue=[0-9]*" <<<"$spread" | cut -d= -f2)" != "$(grep -o "eth0-tx-$queue=[0-9]*" <<<"$spread" | cut -d= -f2)" ] || return 1
        done
    }
    verdict 004/19 "--design spread on an igb with four CPUs: $spread" apart

    seen=$("$netcliff" simulate --queues 4:map=spread,on=0/1/2/3,transmit=4us --rate 100kpps --packets 20000 --json 2>&1)
    cores=$(grep -o '"role":"[a-z]*","core":[0-9]*' <<<"$seen" | grep -o '[0-9]*$' | sort -u | wc -l)
    verdict 004/19 "map=spread on four cores: eight vectors on $cores cores" test "$cores" = 4
    seen=$("$netcliff" simulate --queues 4:map=smt,on=0/1/2/3 --rate 100kpps 2>&1 | head -n 1)
    verdict 004/19 "map=smt with on: $seen" grep -q "leave out map=smt or on" <<<"$seen"

    # The hash of UDP does not include ports, as after the start of an igb.
    sed -i '0,/"ntuple_rules": 0/s//"ntuple_rules": 0, "hash_fields": {"tcp4": "sdfn", "udp4": "sd"}/' igb/netlink.json
    seen=$("$netcliff" inspect --from igb --if eth0 2>&1 | grep -A3 -i "4-tuple" | head -n 4)
    verdict 004/12 "$(head -n 1 <<<"$seen")" grep -q "UDP 4-tuple not hashed" <<<"$seen"
    seen=$("$netcliff" tune plan --objective throughput --if eth0 --from igb 2>&1 | grep -m 1 "rx-flow-hash")
    verdict 004/12 "plan: $seen" grep -q "rx-flow-hash udp4 sdfn" <<<"$seen"

    if ! ip netns add "$space" 2>/dev/null; then
        skipped "000/23 004/13" "no namespace can be made here"
        exit "$wrong"
    fi
    ip netns exec "$space" ip link add p0 type veth peer name p1
    for setting in pause-rx=off rx-usecs@1=8 hash-udp4=sdfn steer-udp4-53=1 header-split=on; do
        seen=$(ip netns exec "$space" timeout 20 "$netcliff" tune set "$setting" --if p0 --dry-run 2>&1)
        code=$?
        verdict "000/17 000/23 004/13" "tune set $setting on a veth: exit $code, $(tail -n 1 <<<"$seen" | cut -c1-120)" test "$code" = 2 -a -n "$seen"
    done
    seen=$(ip netns exec "$space" timeout 20 "$netcliff" tune set pause=off --if p0 2>&1)
    verdict 000/23 "tune set pause=off: $(head -n 1 <<<"$seen" | cut -c1-120)" grep -q "pause-rx" <<<"$seen"

    # In one session, the settings are recorded in the journal and undone.
    before=$(ip netns exec "$space" cat /sys/class/net/p0/gro_flush_timeout)
    ip netns exec "$space" timeout 20 "$netcliff" tune set gro_flush_timeout=20us gro=on --if p0 >/dev/null 2>&1
    set_to=$(ip netns exec "$space" cat /sys/class/net/p0/gro_flush_timeout)
    ip netns exec "$space" timeout 20 "$netcliff" tune undo >/dev/null 2>&1
    after=$(ip netns exec "$space" cat /sys/class/net/p0/gro_flush_timeout)
    verdict 51/session "tune set gro_flush_timeout: $before, $set_to, after undo $after" test "$before" = "$after" -a "$set_to" = 20000
    exit "$wrong"
)

adapting || ended $?
placing || ended $?
exit "$worst"
