#!/bin/bash
# Repeats row 44 of document 002 (the hybrid in Linux): netcliff tune adapt on a veth, its ends, a second one on the same device.
# Usage: scripts/review/adapt.sh NETCLIFF. Needs root, python3, ethtool, ip. At most 60 s.
set -u
program=$(realpath "${1:?the netcliff program}")
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

# ROW 0|1 TEXT: right where the second is 0.
row() {
    if [ "$2" -eq 0 ]; then echo "ok $1: $3"; else
        echo "WRONG $1: $3"
        wrong=1
    fi
}
inside() { ip netns exec "$b" "$@"; }
values() { inside cat /sys/class/net/v1/gro_flush_timeout /sys/class/net/v1/napi_defer_hard_irqs | tr '\n' ' '; }
has() { for _ in $(seq 100); do [ "$(values)" = "$1" ] && return 0; sleep 0.05; done; return 1; }
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

inside "$program" "${adapt[@]}" --for 5s --json >"$work/events" 2>"$work/said" &
adapting=$!
load 2 &
has "50000 2 "
row adapt-up $? "polling under load: $(values)"
NETCLIFF_STATE_DIR=$work/other inside "$program" "${adapt[@]}" --for 1s >/dev/null 2>"$work/second"
[ $? -eq 1 ] && grep -q "another netcliff adapts v1" "$work/second"
row adapt-second $? "$(cut -c1-120 "$work/second")"
has "0 0 "
row adapt-down $? "interrupts without load: $(values)"
wait "$adapting"
events=$(sed 's/.*"event":"\([a-z]*\)".*/\1/' "$work/events" | tr '\n' ' ')
[ "$events" = "start switch switch end " ]
row adapt-events $? "$events"

for signal in TERM KILL; do
    ip netns exec "$b" "$program" "${adapt[@]}" >"$work/out" 2>&1 &
    adapting=$!
    load 1 &
    has "50000 2 "
    kill -"$signal" "$adapting"
    wait "$adapting" 2>/dev/null
    [ "$signal" = TERM ] || inside "$program" tune undo >/dev/null 2>&1
    [ "$(values)" = "0 0 " ]
    row "adapt-$signal" $? "set back: $(values)"
done
load 1 &
inside "$program" "${adapt[@]}" --dry-run --for 1s >"$work/dry" 2>&1
grep -q "would switch: polls" "$work/dry" && [ "$(values)" = "0 0 " ]
row adapt-dry $? "$(tail -1 "$work/dry")"
exit "$wrong"
