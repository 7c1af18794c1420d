#!/usr/bin/env bash
# cpu.sh [ROUNDS]: compares netcliff's two sources of CPU time: each CPU's busy share by /proc/stat (ticks) and by eBPF
# (at the kernel's transitions), over the same windows, at four loads. Also measures the cost of the eBPF meter, by the
# same transfer with and without it, interleaved. Writes cpu.csv, cpu.md and raw output to results/. Has the
# requirements of run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
ROUNDS="${1:-5}"
NETCLIFF="${NETCLIFF:-../../target/release/netcliff}"
SECONDS_EACH="${SECONDS_EACH:-3}"
OUT="${OUT:-results}"
TOOLS=()
source ./bed.sh
offloads on

TABLE="$OUT/cpu.csv"
echo "round,load,meter,cpu,goodput_bps,proc_stat_busy,ebpf_busy,proc_stat_softirq,ebpf_softirq,meter_overhead,steal_share" >"$TABLE"
for round in $(seq "$ROUNDS"); do
    for load in 1Gbit/s 5Gbit/s 15Gbit/s full; do
        meters=(ebpf procfs)
        if ((round % 2)); then meters=(procfs ebpf); fi
        for meter in "${meters[@]}"; do
            log="$OUT/cpu-$round-${load%/s}-$meter.raw"
            pace=()
            if [[ $load != full ]]; then pace=(--rate "$load"); fi
            "$NETCLIFF" stream --namespaces "$NEAR,$FAR" --address 10.77.0.2 --cpu 0,1 --block 64KiB --congestion cubic \
                --time "${SECONDS_EACH}s" --warmup 500ms --repeats 1 --cpu-meter "$meter" --json "${pace[@]}" 2>/dev/null >"$log" || true
            jq -r --arg round "$round" --arg load "$load" --arg meter "$meter" '.rows[0] as $row | $row.system[] as $ticks |
                ([$row.exact // [] | .[] | select(.cpu == $ticks.cpu)][0]) as $exact |
                [$round, $load, $meter, $ticks.cpu, $row.goodput_bps.median, 1 - $ticks.idle - $ticks.steal,
                 (if $exact then 1 - $exact.idle else "-" end), $ticks.softirq, ($exact.softirq // "-"),
                 ($exact.overhead // "-"), $ticks.steal] | join(",")' "$log" | tee -a "$TABLE" >&2
        done
    done
done
python3 ../lib/peers.py cpu "$TABLE" | tee "$OUT/cpu.md"
