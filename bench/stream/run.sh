#!/usr/bin/env bash
# run.sh [ROUNDS]: compares netcliff stream with iperf3, iperf2, nuttcp and qperf: TCP over veth between two namespaces,
# in interleaved rounds, with offloads on and off, with cubic and bbr. The sender is on CPU 0, the receiver on CPU 1.
# Additional rows show netcliff with 1 MiB blocks, and for small blocks with io_uring (many writes per call) and with a
# receiver that wakes only for 64 KiB. CPU time comes from /proc/stat over a window within each transfer, in the same
# way for all tools. The CPU use just before each transfer is recorded too, so that a transfer that did not have the
# machine to itself can be left out. Raw output and a table are written to results/ next to this script. Needs root, ip,
# ethtool, iperf3, iperf, nuttcp, qperf, jq, and a release build of netcliff (NETCLIFF=path). STATES="on off" and
# CONGESTIONS="cubic bbr" can be shortened.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
ROUNDS="${1:-5}"
NETCLIFF="${NETCLIFF:-../../target/release/netcliff}"
SECONDS_EACH="${SECONDS_EACH:-3}"
OUT="${OUT:-results}"
TOOLS=(iperf3 iperf nuttcp qperf)
source ./bed.sh

# The receivers of the peers run on CPU 1 during the whole script. That of nuttcp stops answering after some time, so it
# is started for each measurement. No function starts the receivers, so that $! is the receiver itself.
ip netns exec "$FAR" taskset -c 1 iperf3 -s >/dev/null 2>&1 &
servers+=($!)
# Another port than iperf's default, which nuttcp's data uses.
ip netns exec "$FAR" taskset -c 1 iperf -s -p 5555 >/dev/null 2>&1 &
servers+=($!)
ip netns exec "$FAR" taskset -c 1 qperf >/dev/null 2>&1 &
servers+=($!)
sleep 1

# own LOG BLOCK CONGESTION OPTIONS...: prints bit/s by netcliff's receiver, and the CPU use that its two threads report.
own() {
    "$NETCLIFF" stream --namespaces "$NEAR,$FAR" --address 10.77.0.2 --cpu 0,1 --block "${2}B" --congestion "$3" \
        --time "${SECONDS_EACH}s" --warmup 500ms --repeats 1 --cpu-meter procfs --json "${@:4}" 2>/dev/null >"$1" || true
    jq -r '.rows[0] | "\(.goodput_bps.median // "-") \(.sender_cpu.busy.median + .receiver_cpu.busy.median)"' "$1"
}

# one TOOL BLOCK CONGESTION LOG: prints bit/s by the receiver and the CPU use by the tool's own figures; `-` for a
# figure that the tool does not report.
one() {
    local tool="$1" block="$2" congestion="$3" log="$4"
    local client=(near timeout "$((SECONDS_EACH + 20))" taskset -c 0)
    case "$tool" in
        netcliff) own "$log" "$block" "$congestion" ;;
        netcliff-uring) own "$log" "$block" "$congestion" --path uring ;;
        netcliff-low-water) own "$log" "$block" "$congestion" --low-water 64KiB ;;
        netcliff-1MiB) own "$log" 1048576 "$congestion" ;;
        iperf3)
            "${client[@]}" iperf3 -c 10.77.0.2 -t "$SECONDS_EACH" -O 1 -l "$block" -C "$congestion" -J >"$log" || true
            jq -r '.end | "\(.sum_received.bits_per_second // "-") \(.cpu_utilization_percent | (.host_total + .remote_total) / 100)"' "$log"
            ;;
        iperf)
            "${client[@]}" iperf -c 10.77.0.2 -p 5555 -t "$SECONDS_EACH" -l "$block" -Z "$congestion" -y C >"$log" || true
            awk -F, 'NF > 8 {value = $9} END {print value == "" ? "-" : value, "-"}' "$log"
            ;;
        qperf)
            # qperf's CPU figures are those of the host, which both ends share here. Like nuttcp, qperf uses the
            # namespace's default congestion control.
            "${client[@]}" qperf -t "$SECONDS_EACH" -m "$block" -ub -uu 10.77.0.2 tcp_bw >"$log" 2>&1 || true
            awk '$1 == "bw" {value = $3} END {print value == "" ? "-" : value, "-"}' "$log"
            ;;
        nuttcp)
            # nuttcp has no option for the congestion control, so it uses the namespace's default.
            ip netns exec "$FAR" taskset -c 1 nuttcp -1 --nofork >/dev/null 2>&1 &
            local server=$!
            sleep 0.3
            "${client[@]}" nuttcp -T"$SECONDS_EACH" -l"$block" -fparse 10.77.0.2 >"$log" 2>&1 || true
            kill "$server" 2>/dev/null || true
            sed -n 's/.*rate_Mbps=\([0-9.]*\) tx_cpu=\([0-9]*\) rx_cpu=\([0-9]*\).*/\1 \2 \3/p' "$log" |
                awk '{print $1 * 1e6, ($2 + $3) / 100} END {if (!NR) print "- -"}'
            ;;
    esac
}

TABLE="$OUT/rounds.csv"
echo "offloads,congestion,block_bytes,round,tool,bps,own_cpus,busy_cpus,steal_share,busy_before" >"$TABLE"
for state in ${STATES:-on off}; do
    offloads "$state"
    for congestion in ${CONGESTIONS:-cubic bbr}; do
        for ns in "$NEAR" "$FAR"; do
            ip netns exec "$ns" sysctl -qw "net.ipv4.tcp_congestion_control=$congestion"
        done
        for block in 64 65536 131072; do
            tools=(netcliff iperf3 iperf nuttcp qperf)
            if [[ $block == 64 ]]; then tools+=(netcliff-uring netcliff-low-water); fi
            if [[ $block == 131072 ]]; then tools+=(netcliff-1MiB); fi
            for round in $(seq "$ROUNDS"); do
                for place in "${!tools[@]}"; do
                    # Each round has another order.
                    tool="${tools[$(((place + round) % ${#tools[@]}))]}"
                    log="$OUT/$state-$congestion-$block-$round-$tool.raw"
                    # Wait for the remaining work of the previous transfer to end.
                    sleep 0.2
                    read -r busy0 steal0 all0 < <(ticks)
                    sleep 0.3
                    read -r busy1 steal1 all1 < <(ticks)
                    before="$(window "$busy0" "$steal0" "$all0" "$busy1" "$steal1" "$all1")"
                    one "$tool" "$block" "$congestion" "$log" >"$OUT/told" &
                    measuring=$!
                    # After 1.2 s every tool has finished its warm-up, and no tool ends before SECONDS_EACH (3 s).
                    sleep 1.2
                    read -r busy0 steal0 all0 < <(ticks)
                    sleep "$(awk -v s="$SECONDS_EACH" 'BEGIN {print s - 1.4}')"
                    read -r busy1 steal1 all1 < <(ticks)
                    wait "$measuring"
                    read -r bps own_cpus <"$OUT/told"
                    echo "$state,$congestion,$block,$round,$tool,$bps,$own_cpus,$(window "$busy0" "$steal0" "$all0" "$busy1" "$steal1" "$all1"),${before%,*}" |
                        tee -a "$TABLE" >&2
                done
            done
        done
    done
done
rm -f "$OUT/told"
python3 ../lib/peers.py stream "$TABLE" | tee "$OUT/summary.md"
