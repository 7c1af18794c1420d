#!/usr/bin/env bash
# f.sh NETCLIFF: repeats the rows of REVIEW.md about the command line, experiment files and rfc2544's neighbours; one line a row.
set -uo pipefail
netcliff="$(realpath "${1:?the path of the netcliff program}")"
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
work="$(mktemp -d)"
chmod 700 "$work"
export XDG_DATA_HOME="$work" NETCLIFF_STATE_DIR="$work/state"
mkdir -m 700 "$work/state"
wrong=0
tester="frt$$" router="frr$$"
agent=""

# shellcheck disable=SC2317  # called by trap
cleanup() {
    [[ -z "$agent" ]] || kill "$agent" 2>/dev/null
    ip netns del "$tester" 2>/dev/null
    ip netns del "$router" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT

# row NAME PATTERN COMMAND...: right if what the command prints matches.
row() {
    local name="$1" pattern="$2" said
    shift 2
    said="$(timeout 40 "$@" 2>&1)"
    if grep -qE -- "$pattern" <<<"$said"; then
        echo "ok $name: $(grep -m1 -E -- "$pattern" <<<"$said")"
    else
        echo "WRONG $name: $(tail -n 2 <<<"$said" | tr '\n' ' ')"
        wrong=1
    fi
}

"$netcliff" stream -s -p 9876 >"$work/agent" 2>&1 &
agent=$!
for _ in {1..50}; do grep -q listens "$work/agent" || sleep 0.1; done
row 14-server 'admitted' cat "$work/agent"
row 14-client 'Goodput' "$netcliff" stream -c 127.0.0.1 -p 9876 -u -b 10M -t 0.2 --repeats 1
row 14-rr 'transactions|Latency|latency' "$netcliff" rr -c 127.0.0.1 -p 9876 -t 0.2 --repeats 1
row 14-hint 'path zerocopy' "$netcliff" stream -Z
row 14-numbers 'Goodput' "$netcliff" stream --testbed loopback -b 0 -l 128k -w 256k -S 0x10 -t 0.1 --repeats 1
row 14-rates 'Goodput' "$netcliff" stream --testbed loopback -u -b 10m -t ' 0.1' --repeats 1
row 14-burst 'leave /100 out' "$netcliff" stream -b 10M/100
row 14-cport 'the kernel chooses' "$netcliff" stream --cport 5000
row 14-dscp 'four times the DSCP' "$netcliff" stream --dscp ef
row 14-tcpdump "filter 'udp port 53'" "$netcliff" drops udp port 53
row 14-interface '\-\-if NAME' "$netcliff" find -i eth0
row 14-word '\-\-to HOST' "$netcliff" stream 192.0.2.1
row 18-two-outputs 'named for two outputs' "$netcliff" run fig-7a --engine model --svg "$work/x" --html "$work/x"
row 18-dash '/dev/stdout is stdout' "$netcliff" run fig-7a --engine model --svg -
row 14-predict 'offered load|100 kpps' "$netcliff" predict --scheme interrupt --rate 100k
row 14-ambiguous 'expected a rate' "$netcliff" predict --rate 100M
row 18-list 'fig-7a .*Figure 7\(a\)' "$netcliff" run --list
row 18-csv 'CSV written to' "$netcliff" run fig-7a --engine model --csv "$work/sw.csv"
row 18-keys 'experiment_keys' cat docs/reference/experiments.md
row 19-paper 'Salah.*\(2007\)' "$netcliff" run fig-7a --engine model
row tune-words 'no terminal to confirm' "$netcliff" tune apply --objective latency </dev/null

awk '/^```toml/ && !done {on = 1; next} /^```/ {if (on) done = 1; on = 0} on' docs/how-to/experiments.md >"$work/sweep.toml"
row 17-example 'steepest at' "$netcliff" run "$work/sweep.toml" --engine sim --packets 2000

if [[ "$(id -u)" == 0 ]] && ip netns add "$tester" 2>/dev/null && ip netns add "$router"; then
    ip -n "$tester" link add ta type veth peer name ra address 02:00:00:00:0a:01 netns "$router"
    ip -n "$tester" link add tb type veth peer name rb netns "$router"
    ip -n "$router" addr add 198.18.0.1/16 dev ra
    ip -n "$router" addr add 198.19.0.1/16 dev rb
    for port in ra rb; do ip -n "$router" link set "$port" up; done
    for port in ta tb; do ip -n "$tester" link set "$port" up; done
    ip netns exec "$router" sysctl -qw net.ipv4.ip_forward=1
    # shellcheck disable=SC2054  # the list of CPUs has a comma
    test2544=(ip netns exec "$tester" "$netcliff" rfc2544 loss --tx ta --rx tb --device-mac 02:00:00:00:0a:01 --frames 64
        --trial 50ms --max 2kpps --rest 0s --cpu 0,0)
    row 13-arp 'FRAME LOSS|loss' "${test2544[@]}"
    row 13-resolved 'REACHABLE|STALE|DELAY|PROBE' ip -n "$router" neigh show 198.19.0.2
    ip -n "$router" addr del 198.19.0.1/16 dev rb
    row 13-causes 'network unreachable' "${test2544[@]}"
else
    echo "SKIPPED 13: needs root and network namespaces"
fi
exit "$wrong"
