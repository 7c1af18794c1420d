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
NEAR="ncb-$$-n"
FAR="ncb-$$-f"
OUT="${OUT:-results}"
mkdir -p "$OUT"
servers=()

cleanup() {
    for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done
    ip netns del "$NEAR" 2>/dev/null || true
    ip netns del "$FAR" 2>/dev/null || true
}
trap cleanup EXIT

for tool in ip ethtool iperf3 iperf nuttcp jq "$NETCLIFF"; do
    command -v "$tool" >/dev/null || { echo "run.sh: $tool is missing" >&2; exit 1; }
done

ip netns add "$NEAR"
ip netns add "$FAR"
ip -n "$NEAR" link add v0 type veth peer name v1 netns "$FAR"
for end in "$NEAR v0 1" "$FAR v1 2"; do
    read -r ns dev host <<<"$end"
    ip -n "$ns" addr add "10.77.0.$host/24" dev "$dev"
    ip -n "$ns" link set "$dev" up
    ip -n "$ns" link set lo up
done

near() { ip netns exec "$NEAR" "$@"; }
far() { ip netns exec "$FAR" "$@"; }

offloads() {
    for end in "$NEAR v0" "$FAR v1"; do
        read -r ns dev <<<"$end"
        ip netns exec "$ns" ethtool -K "$dev" tso "$1" gso "$1" gro "$1" tx "$1" rx "$1" >/dev/null 2>&1 || true
    done
}

# The receivers of the peers, on CPU 1 for the whole run.
far taskset -c 1 iperf3 -s -D -I "/tmp/$FAR.iperf3.pid" >/dev/null
far taskset -c 1 nuttcp -S --nofork >/dev/null 2>&1 &
servers+=($!)
far taskset -c 1 iperf -s >/dev/null 2>&1 &
servers+=($!)
sleep 1
servers+=("$(tr -d '\0' <"/tmp/$FAR.iperf3.pid")")

ticks() { awk '/^cpu /{print $2+$3+$4+$7+$8, $9, $2+$3+$4+$5+$6+$7+$8+$9}' /proc/stat; }

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
            near taskset -c 0 iperf3 -c 10.77.0.2 -t "$SECONDS_EACH" -O 1 -l "$block" -C "$congestion" -J >"$log" || true
            jq -r '.end.sum_received.bits_per_second // "-"' "$log"
            ;;
        iperf)
            near taskset -c 0 iperf -c 10.77.0.2 -t "$SECONDS_EACH" -l "$block" -Z "$congestion" -y C >"$log" || true
            awk -F, 'NF > 8 {value = $9} END {print value == "" ? "-" : value}' "$log"
            ;;
        nuttcp)
            # nuttcp has no option for the congestion control: it takes the namespace's default.
            near taskset -c 0 nuttcp -T"$SECONDS_EACH" -l"$block" -fparse 10.77.0.2 >"$log" || true
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
                    shares="$(awk -v b="$((busy1 - busy0))" -v s="$((steal1 - steal0))" -v a="$((all1 - all0))" \
                        'BEGIN {printf "%.4f,%.4f", b / a, s / a}')"
                    read -r load _ </proc/loadavg
                    echo "$state,$congestion,$block,$round,$tool,$bps,$shares,$load" | tee -a "$TABLE" >&2
                done
            done
        done
    done
done
python3 summary.py "$TABLE" | tee "$OUT/summary.md"
