#!/usr/bin/env bash
# run.sh PART...: measures the acceptance limits of the ledger (cost), of --probe (probe) and of ten senders to one
# receiver (ten). Needs root, two CPUs, no other load, and release builds of netcliff and of netcliff-trial's example
# ledger_cost in target/release. The script builds nothing, so that no compiler runs during the measurement.
#
# Environment variables change the defaults: PAIRS (40), SECONDS_A_TRIAL (1), LOADS ("300000 900000"), PROBE_PAIRS (24),
# TEN_REPEATS (10), INTO (results/ next to this script).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
into=${INTO:-$here/results}
mkdir -p "$into"
netcliff=$root/target/release/netcliff
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT

# Makes trials in pairs, with and without the tracer.
cost() {
    # shellcheck disable=SC2086 # several loads
    "$root/target/release/examples/ledger_cost" "${PAIRS:-40}" "${SECONDS_A_TRIAL:-1}" ${LOADS:-300000 900000} | tee "$into/cost.csv"
}

# Makes transfers in pairs, with and without requests beside them.
probe() {
    "$here/../stream/pairs.py" "$netcliff" "${PROBE_PAIRS:-24}" | tee "$into/probe.txt"
}

# Ten agents send to this host: at full speed, in bursts, and datagrams at a fixed rate.
ten() {
    local agents=() to=() port
    for port in $(seq 19940 19949); do
        HOME=$state "$netcliff" agent --listen "127.0.0.1:$port" 2>/dev/null &
        agents+=($!)
        to+=(--to "127.0.0.1:$port")
    done
    sleep 1
    : >"$into/ten.json"
    local short=(stream --reverse --time 500ms --warmup 100ms --repeats "${TEN_REPEATS:-10}" --cpu-meter procfs --json)
    for more in "" "--burst 64KiB --every 20ms" "--channel udp --rate 20Mbit/s"; do
        # shellcheck disable=SC2086 # several words
        HOME=$state "$netcliff" "${short[@]}" "${to[@]}" $more 2>/dev/null >>"$into/ten.json"
    done
    kill "${agents[@]}"
    wait "${agents[@]}" 2>/dev/null || true
    # Print how far apart the agents started, and whether each agent's bytes sent equal the bytes received from it.
    python3 - "$into/ten.json" <<'P' | tee "$into/ten.txt"
import json, sys

for line in open(sys.argv[1], encoding="utf-8"):
    row = json.loads(line)["rows"][0]
    many = row["many"]
    skew = many["start_skew_s"]
    sent = sum(agent["sent_bytes"] for agent in many["agents"])
    received = sum(agent["received_bytes"] for agent in many["agents"])
    apart = [agent["agent"] for agent in many["agents"] if agent["sent_bytes"] != agent["received_bytes"]]
    what = "datagrams" if row.get("datagrams") else "in bursts" if many.get("incast") else "full speed"
    last = many.get("incast") and f'; last byte after {1e3 * many["incast"]["until_last_byte_s"]["median"]:.2f} ms (median)' or ""
    print(
        f'{what}: {len(many["agents"])} agents, {row["repeats"]} repeats, start within {1e3 * skew["median"]:.3f} ms '
        f'(least {1e3 * skew["min"]:.3f}, most {1e3 * skew["max"]:.3f}); sent {sent}, received {received} bytes, '
        f'{len(apart)} agents differ; Jain {many["jain"]:.4f}{last}'
    )
P
}

for part in "$@"; do
    "$part"
done
