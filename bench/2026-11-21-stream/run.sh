#!/usr/bin/env bash
# run.sh [ROUNDS]: TCP over veth between two namespaces, netcliff stream beside iperf3, iperf2 and nuttcp, interleaved
# rounds, offloads on and off, cubic and bbr, sender on CPU 0, receiver on CPU 1. Raw output and a table go to
# results/ beside this script. Needs root, ip, ethtool, iperf3, iperf, nuttcp, jq, and a release build of netcliff
# (NETCLIFF=path).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
ROUNDS="${1:-5}"
NETCLIFF="${NETCLIFF:-../../target/release/netcliff}"
SECONDS_EACH="${SECONDS_EACH:-3}"
OUT="${OUT:-results}"
TOOLS=(iperf3 iperf nuttcp)
source ./bed.sh

# The receivers of the peers, on CPU 1 for the whole run; nuttcp's serves one measurement and is started for each, since its
# permanent one stops answering after a while. Started without a function, so that $! is the receiver itself.
ip netns exec "$FAR" taskset -c 1 iperf3 -s >/dev/null 2>&1 &
servers+=($!)
ip netns exec "$FAR" taskset -c 1 iperf -s >/dev/null 2>&1 &
servers+=($!)
sleep 1

# one TOOL BLOCK CONGESTION: bit/s by the receiver, or "-" where the tool does not say.
one() {
    local tool="$1" block="$2" congestion="$3" log="$4"
    case "$tool" in
        netcliff)
            "$NETCLIFF" stream --namespaces "$NEAR,$FAR" --address 10.77.0.2 --cpu 0,1 --block "${block}B" --read 128KiB \
                --congestion "$congestion" --time "${SECONDS_EACH}s" --warmup 500ms --repeats 1 --cpu-meter procfs \
                --json 2>/dev/null >"$log" || true
            jq -r '.rows[0].goodput_bps.median // "-"' "$log"
            ;;
        iperf3)
            near timeout "$((SECONDS_EACH + 20))" taskset -c 0 iperf3 -c 10.77.0.2 -t "$SECONDS_EACH" -O 1 -l "$block" -C "$congestion" -J >"$log" || true
            jq -r '.end.sum_received.bits_per_second // "-"' "$log"
            ;;
        iperf)
            near timeout "$((SECONDS_EACH + 20))" taskset -c 0 iperf -c 10.77.0.2 -t "$SECONDS_EACH" -l "$block" -Z "$congestion" -y C >"$log" || true
            awk -F, 'NF > 8 {value = $9} END {print value == "" ? "-" : value}' "$log"
            ;;
        nuttcp)
            # nuttcp has no option for the congestion control: it takes the namespace's default.
            ip netns exec "$FAR" taskset -c 1 nuttcp -1 --nofork >/dev/null 2>&1 &
            local server=$!
            sleep 0.3
            near timeout "$((SECONDS_EACH + 20))" taskset -c 0 nuttcp -T"$SECONDS_EACH" -l"$block" -fparse 10.77.0.2 >"$log" 2>&1 || true
            kill "$server" 2>/dev/null || true
            sed -n 's/.*rate_Mbps=\([0-9.]*\).*/\1/p' "$log" | awk '{print $1 * 1e6} END {if (!NR) print "-"}'
            ;;
    esac
}

TABLE="$OUT/rounds.csv"
echo "offloads,congestion,block_bytes,round,tool,bps,busy_share,steal_share,load1" >"$TABLE"
tools=(netcliff iperf3 iperf nuttcp)
for state in on off; do
    offloads "$state"
    for congestion in cubic bbr; do
        for ns in "$NEAR" "$FAR"; do
            ip netns exec "$ns" sysctl -qw "net.ipv4.tcp_congestion_control=$congestion"
        done
        for block in 64 65536 131072; do
            for round in $(seq "$ROUNDS"); do
                for place in 0 1 2 3; do
                    # Another order in each round.
                    tool="${tools[$(((place + round) % 4))]}"
                    read -r busy0 steal0 all0 < <(ticks)
                    log="$OUT/$state-$congestion-$block-$round-$tool.raw"
                    bps="$(one "$tool" "$block" "$congestion" "$log")"
                    read -r busy1 steal1 all1 < <(ticks)
                    read -r load _ </proc/loadavg
                    echo "$state,$congestion,$block,$round,$tool,$bps,$(shares "$busy0" "$steal0" "$all0" "$busy1" "$steal1" "$all1"),$load" | tee -a "$TABLE" >&2
                done
            done
        done
    done
done
python3 summary.py "$TABLE" | tee "$OUT/summary.md"
