#!/usr/bin/env bash
# udp.sh [ROUNDS]: compares netcliff with iperf3, iperf2, nuttcp and qperf: UDP datagrams of 64 bytes over veth, each
# tool at its greatest rate, in packets/s that the receiving application received. netcliff uses one call per datagram
# (single), sendmmsg and recvmmsg (batch), UDP_SEGMENT and UDP_GRO (gso), or sendmmsg and one io_uring receive (uring).
# Rounds are interleaved. The sender is on CPU 0, the receiver on CPU 1. Writes udp.csv, udp.md and raw output to
# results/. OFFLOADS=off switches the offloads of the veths off. Has the requirements of run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
ROUNDS="${1:-7}"
NETCLIFF="${NETCLIFF:-../../target/release/netcliff}"
SECONDS_EACH="${SECONDS_EACH:-3}"
BLOCK=64
OUT="${OUT:-results}"
TOOLS=(iperf3 iperf nuttcp qperf)
source ./bed.sh

# server COMMAND...: starts a receiver on CPU 1 for one measurement.
server() {
    ip netns exec "$FAR" taskset -c 1 "$@" &
    serving=$!
    sleep 0.5
}

# one TOOL LOG: prints the datagrams/s that the receiver received, or nothing.
one() {
    local tool="$1" log="$2"
    local client=(near timeout "$((SECONDS_EACH + 20))" taskset -c 0)
    case "$tool" in
        netcliff-*)
            local way=(--path "${tool#netcliff-}")
            if [[ $tool == netcliff-uring ]]; then way=(--path batch --receive uring); fi
            "$NETCLIFF" stream --channel udp --namespaces "$NEAR,$FAR" --address 10.77.0.2 --cpu 0,1 --block "${BLOCK}B" \
                "${way[@]}" --time "${SECONDS_EACH}s" --warmup 500ms --repeats 1 --cpu-meter procfs --json \
                2>/dev/null >"$log" || true
            jq -r --argjson bits "$((BLOCK * 8))" '.rows[0].receiver_bps.median / $bits' "$log"
            ;;
        iperf3)
            server iperf3 -s -1 >/dev/null 2>&1
            "${client[@]}" iperf3 -u -c 10.77.0.2 -t "$SECONDS_EACH" -l "$BLOCK" -b 0 -J >"$log" || true
            jq -r --argjson bytes "$BLOCK" '.end.sum_received | .bytes / $bytes / .seconds' "$log"
            ;;
        iperf)
            # iperf's client knows only what was sent, and its server what was received.
            server iperf -s -u >"$log" 2>&1
            "${client[@]}" iperf -u -c 10.77.0.2 -t "$SECONDS_EACH" -l "$BLOCK" -b 10G >/dev/null || true
            sleep 1
            kill "$serving" 2>/dev/null || true
            sed -n 's/.* 0\.0000-\([0-9.]*\) sec .* \([0-9]*\)\/\([0-9]*\) (.*/\1 \2 \3/p' "$log" | awk 'END {if (NR) print ($3 - $2) / $1}'
            ;;
        nuttcp)
            server nuttcp -1 --nofork >/dev/null 2>&1
            "${client[@]}" nuttcp -u -Ru -T"$SECONDS_EACH" -l"$BLOCK" -fparse 10.77.0.2 >"$log" 2>&1 || true
            sed -n 's/.*real_seconds=\([0-9.]*\) .* drop=\([0-9]*\) pkt=\([0-9]*\).*/\1 \2 \3/p' "$log" | awk 'END {if (NR) print ($3 - $2) / $1}'
            ;;
        qperf)
            server qperf >/dev/null 2>&1
            "${client[@]}" qperf -t "$SECONDS_EACH" -m "$BLOCK" -uu 10.77.0.2 udp_bw >"$log" 2>&1 || true
            awk -v bytes="$BLOCK" '$1 == "recv_bw" {print $3 / bytes}' "$log"
            ;;
    esac
    if [[ -n $serving ]]; then kill "$serving" 2>/dev/null || true; fi
}

offloads "${OFFLOADS:-on}"
TABLE="$OUT/udp.csv"
echo "round,tool,received_pps,busy_share,steal_share,load1" >"$TABLE"
tools=(netcliff-single iperf3 iperf nuttcp qperf netcliff-batch netcliff-gso netcliff-uring)
for round in $(seq "$ROUNDS"); do
    for place in "${!tools[@]}"; do
        # Each round has another order.
        tool="${tools[$(((place + round) % ${#tools[@]}))]}"
        serving=""
        read -r busy0 steal0 all0 < <(ticks)
        pps="$(one "$tool" "$OUT/udp-$round-$tool.raw")"
        read -r busy1 steal1 all1 < <(ticks)
        read -r load _ </proc/loadavg
        echo "$round,$tool,${pps:--},$(shares "$busy0" "$steal0" "$all0" "$busy1" "$steal1" "$all1"),$load" | tee -a "$TABLE" >&2
    done
done
python3 ../lib/peers.py udp "$TABLE" | tee "$OUT/udp.md"
