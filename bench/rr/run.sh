#!/usr/bin/env bash
# run.sh [ROUNDS]: compares netcliff, qperf and sockperf by request/response of 64 bytes on loopback, client on CPU 0
# and server on CPU 1, in interleaved rounds. Additional rows show netcliff without wake-ups (--busy-poll) and with both
# ends on one CPU. Raw output, rounds.csv and summary.md are written to results/ next to this script. Needs qperf,
# sockperf, jq, chrt, root and a release build of netcliff (NETCLIFF=path). All programs run under SCHED_FIFO 20 (not
# with FIFO=0), so that other programs do not delay them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
ROUNDS="${1:-7}"
NETCLIFF="${NETCLIFF:-../../target/release/netcliff}"
SECONDS_EACH="${SECONDS_EACH:-2}"
FIFO="${FIFO:-1}"
OUT="${OUT:-results}"
mkdir -p "$OUT"
OUT="$(cd "$OUT" && pwd)"
export NETCLIFF_STATE_DIR="$OUT/state"

for tool in qperf sockperf jq chrt taskset "$NETCLIFF"; do
    command -v "$tool" >/dev/null || { echo "run.sh: $tool is missing" >&2; exit 1; }
done
priority=()
if [[ $FIFO == 1 ]]; then priority=(chrt -f 20); fi

servers=()
cleanup() { for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done; }
trap cleanup EXIT
"${priority[@]}" taskset -c 1 qperf -lp 19765 & servers+=($!)
"${priority[@]}" taskset -c 1 sockperf server -i 127.0.0.1 -p 11111 >/dev/null 2>&1 & servers+=($!)
"${priority[@]}" taskset -c 1 sockperf server --tcp -i 127.0.0.1 -p 11112 >/dev/null 2>&1 & servers+=($!)
sleep 1

# Steal and total ticks of the machine.
ticks() { awk '/^cpu /{print $9, $2+$3+$4+$5+$6+$7+$8+$9}' /proc/stat; }

# own LOG TRANSPORT CPUS OPTIONS...: prints mean and median of half a round trip by netcliff (us).
own() {
    local log="$1" transport="$2" cpus="$3"
    "${priority[@]}" "$NETCLIFF" rr --testbed loopback --cpu "$cpus" --transport "$transport" --repeats 1 \
        --time "${SECONDS_EACH}s" --warm-up 200ms --json "${@:4}" >"$log" 2>/dev/null || true
    jq -r 'select(.latency) | "\(.latency.mean_s * 5e5) \(.latency.p50_s * 5e5)"' "$log"
}

# one TOOL TRANSPORT LOG: prints mean and median of half a round trip by any tool (us); `-` for a figure that the tool
# does not report.
one() {
    local tool="$1" transport="$2" log="$3"
    case "$tool" in
        netcliff) own "$log" "$transport" 0,1 ;;
        netcliff-busy-poll) own "$log" "$transport" 0,1 --busy-poll ;;
        netcliff-one-cpu) own "$log" "$transport" 0,0 ;;
        qperf)
            "${priority[@]}" timeout 30 taskset -c 0 qperf -lp 19765 -t "$SECONDS_EACH" -m 64 -uu 127.0.0.1 "${transport}_lat" >"$log" || true
            awk '/latency/ { print $3 * ($4 == "ns" ? 1e-3 : $4 == "sec" ? 1e6 : $4 == "ms" ? 1e3 : 1), "-" }' "$log"
            ;;
        sockperf)
            local port=11111 tcp=()
            if [[ $transport == tcp ]]; then port=11112 tcp=(--tcp); fi
            "${priority[@]}" timeout 30 taskset -c 0 sockperf ping-pong -i 127.0.0.1 -p "$port" "${tcp[@]}" -t "$SECONDS_EACH" -m 64 >"$log" 2>&1 || true
            awk '/Summary: Latency is/ { mean = $5 } /percentile 50.000/ { median = $NF }
                END { if (mean != "") print mean, median }' "$log"
            ;;
    esac
}

TABLE="$OUT/rounds.csv"
echo "transport,round,tool,mean_us,median_us,steal_share,load1" >"$TABLE"
tools=(netcliff qperf sockperf netcliff-busy-poll netcliff-one-cpu)
for transport in tcp udp; do
    for round in $(seq "$ROUNDS"); do
        for place in 0 1 2 3 4; do
            # Each round has another order.
            tool="${tools[$(((place + round) % 5))]}"
            read -r steal0 all0 < <(ticks)
            log="$OUT/$transport-$round-$tool.raw"
            found="$(one "$tool" "$transport" "$log")"
            read -r mean median <<<"${found:-- -}"
            read -r steal1 all1 < <(ticks)
            steal="$(awk -v s="$((steal1 - steal0))" -v a="$((all1 - all0))" 'BEGIN {printf "%.4f", s / a}')"
            read -r load _ </proc/loadavg
            echo "$transport,$round,$tool,$mean,$median,$steal,$load" | tee -a "$TABLE" >&2
        done
    done
done
python3 ../lib/peers.py rr "$TABLE" | tee "$OUT/summary.md"
