#!/usr/bin/env bash
# run.sh NETCLIFF [WORK_US] [BATCH] [HOLD_MS]: runs `learn` at 20, 35 and 50 % of a cliff that is measured just before,
# in two namespaces joined by veth. The sender and the server come from traffic.c instead of netcliff. Both have
# real-time priority, so that other programs hardly disturb them. Prints one line for the cliff and one per load. Needs
# root, gcc and two CPUs. Takes less than 2 minutes.
set -euo pipefail
netcliff="$(realpath "$1")"
work_us="${2:-1.5}" batch="${3:-4}" hold_ms="${4:-0}" for_s="${FOR_S:-20}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dir="$(mktemp -d)"
snd="C-lsnd-$$" rcv="C-lrcv-$$"
server=""
clean() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    ip netns delete "$snd" 2>/dev/null || true
    ip netns delete "$rcv" 2>/dev/null || true
    rm -rf "$dir"
}
trap clean EXIT
gcc -O2 -o "$dir/traffic" "$here/traffic.c" -lm
ip netns add "$snd"
ip netns add "$rcv"
ip -n "$snd" link add cv0 type veth peer name cv1 netns "$rcv"
ip -n "$snd" address add 10.53.0.1/24 dev cv0
ip -n "$rcv" address add 10.53.0.2/24 dev cv1
ip -n "$snd" link set cv0 up
ip -n "$rcv" link set cv1 up
ip netns exec "$rcv" sh -c 'echo 2 >/sys/class/net/cv1/queues/rx-0/rps_cpus'
export XDG_DATA_HOME="$dir" NETCLIFF_STATE_DIR="$dir/state"
mkdir -m 700 "$dir/state"
ip netns exec "$rcv" taskset -c 1 chrt -f 50 "$dir/traffic" serve 5353 "$work_us" "$hold_ms" &
server=$!
sleep 0.5
read_datagrams() { ip netns exec "$rcv" awk '/^Udp: [0-9]/ { print $2 }' /proc/net/snmp; }
burst() { ip netns exec "$snd" taskset -c 0 chrt -f 50 "$dir/traffic" burst 10.53.0.2 5353 "$1" "$2" "$batch" "$3" "$4"; }
ping_once() { ip netns exec "$snd" ping -c1 -W1 10.53.0.2 >/dev/null; }
ping_once
# Prints the share of the sent datagrams that were lost, and the rate that the sender reached (datagrams/s).
lost() {
    local before after sent
    before="$(read_datagrams)"
    read -r sent took < <(burst "$1" 0.8 0 "$2")
    sleep 0.05
    after="$(read_datagrams)"
    awk -v s="$sent" -v t="$took" -v r="$((after - before))" 'BEGIN { printf "%.6f %.0f\n", (s - r) / s, s / t }'
}
low=20000 high=800000
for round in 1 2 3 4 5 6 7 8 9; do
    middle="$(awk -v a="$low" -v b="$high" 'BEGIN { printf "%.0f", sqrt(a * b) }')"
    fails=0 reached=0
    # A load passes if one of four trials passes, because disturbances of the machine only add losses.
    for again in 1 2 3 4; do
        read -r loss reached < <(lost "$middle" "$round$again")
        if awk -v l="$loss" 'BEGIN { exit !(l > 1e-4) }'; then fails=$((fails + 1)); else break; fi
    done
    [ -z "${VERBOSE:-}" ] || echo "$middle: loss $loss at $reached, fails $fails"
    if [ "$fails" = 4 ]; then high="$middle"; else low="$middle"; fi
done
cliff="$(awk -v a="$low" -v b="$high" 'BEGIN { printf "%.0f", sqrt(a * b) }')"
echo "cliff $cliff ($low to $high) work ${work_us}us batch $batch hold ${hold_ms}ms"
for times in ${BEYOND:-}; do
    echo "$times times the cliff: $(lost "$(awk -v c="$cliff" -v t="$times" 'BEGIN { printf "%.0f", c * t }')" 3)"
done
for share in ${SHARES:-0.20 0.35 0.50}; do
    pps="$(awk -v c="$cliff" -v s="$share" 'BEGIN { printf "%.0f", c * s }')"
    burst "$pps" "$((for_s + 3))" 0.3 7 >"$dir/sent" &
    sender=$!
    sleep 1
    ip netns exec "$rcv" "$netcliff" learn --if cv1 --port 5353 --for "${for_s}s" --json ${LEARN_OPTIONS:-} >"$dir/learned.json" 2>"$dir/err" || { cat "$dir/err"; }
    wait "$sender" || true
    [ -z "${KEEP:-}" ] || cp "$dir/learned.json" "$KEEP-$share.json"
    python3 - "$dir/learned.json" "$cliff" "$share" <<'PY'
import json, sys
learned, cliff, share = json.load(open(sys.argv[1])), float(sys.argv[2]), float(sys.argv[3])
first = learned["parts"][0] if learned["parts"] else {}
figure = first.get("cliff_pps")
watched = learned["watched"]
cost = watched["own_cpu"] + watched.get("meter_cpu", 0)
if figure is None:
    print(f"at {share:.2f}: no cliff: {[one['why'] for one in learned['missing']]}")
else:
    covered = figure["low"] <= cliff <= figure["high"]
    costs = " ".join(f"{one['key']}={1e6 * one['figure']['value']:.2f}" for one in first.get("costs", []))
    print(f"at {share:.2f}: predicted/measured {figure['value'] / cliff:.2f} ({figure['low'] / cliff:.2f} to {figure['high'] / cliff:.2f}) "
          f"covered {covered} by {first['name']}; watching {100 * cost:.2f} % of a CPU; metered {watched['metered']}/{watched['slices']} disturbed {watched['disturbed']}; us: {costs} fixed {first['fixed']:.3f}")
PY
done
