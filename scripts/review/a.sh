#!/usr/bin/env bash
# a.sh NETCLIFF: repeats the rows of the review on load and loss: `ok`, `WRONG` or `SKIPPED`, the row and what was seen.
set -uo pipefail
netcliff="$(realpath "${1:?usage: a.sh PATH-OF-NETCLIFF}")"
scratch="$(mktemp -d)"
export XDG_DATA_HOME="$scratch" NETCLIFF_STATE_DIR="$scratch/state"
mkdir -m 700 "$NETCLIFF_STATE_DIR"
near="nra$$" far="nrb$$" agent=""
wrong=0
# shellcheck disable=SC2317 # the trap calls it
cleanup() {
    [[ -z "$agent" ]] || kill "$agent" 2>/dev/null
    ip netns del "$near" 2>/dev/null
    ip netns del "$far" 2>/dev/null
    rm -rf "$scratch"
}
trap cleanup EXIT

# row NAME SEEN TEST...: one line; the row is right where the test succeeds.
row() {
    if "${@:3}"; then echo "ok $1: $2"; else
        echo "WRONG $1: $2"
        wrong=1
    fi
}
field() { python3 -c 'import json,sys; print(eval(sys.argv[1], {"r": json.load(sys.stdin)}))' "$1"; }

if ! ip netns add "$near" || ! ip netns add "$far"; then
    echo "SKIPPED load and loss: no rights to make network namespaces"
    exit 0
fi
ip link add va netns "$near" type veth peer name vb netns "$far"
ip -n "$near" addr add 10.99.1.1/24 dev va
ip -n "$far" addr add 10.99.1.2/24 dev vb
ip -n "$near" link set va up
ip -n "$far" link set vb up
"$netcliff" agent --make-key "$scratch/key" 2>/dev/null
ip netns exec "$far" "$netcliff" agent --listen 0.0.0.0:9940 --key "$scratch/key" 2>/dev/null &
agent=$!
sleep 1
stream() {
    ip netns exec "$near" "$netcliff" stream --to 10.99.1.2 --key "$scratch/key" --channel udp --time 2s --repeats 1 --json "$@" 2>/dev/null
}

if ip netns exec "$near" tc qdisc add dev va root tbf rate 20mbit burst 16000 limit 32000 2>/dev/null; then
    stream -b 30M -l 1470B >"$scratch/tbf.json"
    sent="$(field 'r["rows"][0]["datagrams"]["sent"]' <"$scratch/tbf.json")"
    lost="$(field 'round(100 * r["rows"][0]["datagrams"]["lost"] / r["rows"][0]["datagrams"]["sent"])' <"$scratch/tbf.json")"
    # Two seconds and a quarter of warm-up of 2.55 kpps each.
    row "stream -b behind tbf" "$sent datagrams, $lost % lost" test "$sent" -le 6500 -a "$lost" -ge 25 -a "$lost" -le 45
    ip netns exec "$near" tc qdisc del dev va root
else
    echo "SKIPPED stream -b behind tbf: the kernel has no tbf"
fi
ip -n "$far" link set vb mtu 1450
stream -b 5M -l 1472B >"$scratch/mtu.json"
seen="$(field '"{sent} sent, {lost} lost".format(**r["rows"][0]["datagrams"])' <"$scratch/mtu.json")"
all="$(field 'int(0 < r["rows"][0]["datagrams"]["sent"] == r["rows"][0]["datagrams"]["lost"] <= 1100)' <"$scratch/mtu.json")"
row "stream over unequal MTUs" "$seen" test "$all" = 1

seen="$("$netcliff" predict --host pentium4-2530mhz --rate 10Gbit/s --link 10Gbit/s --size 64B 2>&1)"
row "predict above the link" "${seen:0:100}" grep -q "14.88.*Mpps" <<<"$seen"
seen="$("$netcliff" limits --bus pcie-2x1:mps=128B --sizes 9018B --json | field 'r["rows"][0]["bps"]')"
row "limits: a bound of the bus is above the 3.07 Gbit/s that were measured" "$seen bit/s" \
    python3 -c 'import sys; sys.exit(float(sys.argv[1]) * 8948 / 9018 < 3.07e9)' "$seen"
exit "$wrong"
