#!/usr/bin/env bash
# run.sh NETCLIFF [cost|copy|sum] [TURNS]: measures the figures that docs/how-to/profile.md gives for `netcliff
# profile`. Needs root, gcc, two CPUs and a quiet machine.
#   cost  gaps in a spinning loop on CPU 1, without a profile and with three rates, in turn (30 s per turn; x86)
#   copy  difference of the copy stage's time per call between two message sizes, divided by the difference on the
#         thread's own clock (30 s per turn)
#   sum   CPU time by all samples against the exact meter, under three loads (30 s per turn)
set -euo pipefail
netcliff="$(realpath "$1")"
what="${2:-cost}" turns="${3:-3}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
export XDG_DATA_HOME="$dir" NETCLIFF_STATE_DIR="$dir/state"
mkdir -m 700 "$dir/state"
profile() { "$netcliff" profile --no-save "$@"; }

cost() {
    gcc -O2 -o "$dir/gap" "$here/gap.c"
    for rate in none 499 default 999; do
        local options=(--for 5s) sampling=""
        case "$rate" in none | default) ;; *) options+=(--rate "$rate") ;; esac
        if [ "$rate" != none ]; then
            profile "${options[@]}" >"$dir/page" 2>&1 &
            sampling=$!
            sleep 1.5
        fi
        echo "rate $rate: $(taskset -c 1 "$dir/gap" 3)"
        [ -z "$sampling" ] || wait "$sampling"
    done
}

copy() {
    gcc -O2 -o "$dir/peek" "$here/peek.c"
    for bytes in 1024 8192 32768 65536; do
        taskset -c 1 "$dir/peek" "$bytes" 7 >"$dir/$bytes.txt" &
        local reader=$!
        sleep 0.6
        profile --pid "$reader" --cpu 1 --for 4s --rate 999 --json >"$dir/$bytes.json"
        wait "$reader"
    done
    python3 - "$dir" <<'P'
import json, sys

def of(size):
    _, calls, cpu_s = open(f"{sys.argv[1]}/{size}.txt").read().split()
    call_ns = float(cpu_s) / int(calls) * 1e9
    stages = json.loads(open(f"{sys.argv[1]}/{size}.json").readline())["stages"]
    return call_ns, call_ns * sum(row["share"]["value"] for row in stages if row["stage"] == "copy")

for small, large in (1024, 8192), (1024, 32768), (1024, 65536), (8192, 65536), (32768, 65536):
    (clock_a, copy_a), (clock_b, copy_b) = of(small), of(large)
    print(f"{small} to {large} B: clock {clock_b - clock_a:.0f} ns, copy stage {copy_b - copy_a:.0f} ns, ratio {(copy_b - copy_a) / (clock_b - clock_a):.3f}")
P
}

sum() {
    for load in "stream --channel udp" "stream --channel tcp" rr; do
        # shellcheck disable=SC2086  # a command and its options
        "$netcliff" $load --testbed netns --time 6s --repeats 1 >/dev/null 2>&1 &
        local sender=$!
        sleep 2
        profile --for 4s --meter ebpf --json >"$dir/sum.json"
        wait "$sender" || true
        python3 - "$load" "$dir/sum.json" <<'P'
import json, sys

found = json.loads(open(sys.argv[2]).readline())
sampled, classes = found["sampled"], found["classes"]
# The page scales the stages to the exact time. The CPU time by the samples alone is their number divided by their rate.
stages = sum(row["samples"] for row in found["stages"]) / sampled["rate_hz"] / sampled["seconds"]
exact = classes["softirq"] + classes["application"]
print(f"{sys.argv[1]}: samples {stages:.3f} CPUs, exact {exact:.3f} CPUs, {100 * (stages / exact - 1):+.1f} %")
P
    done
}

for turn in $(seq "$turns"); do
    echo "turn $turn"
    "$what"
done
