#!/usr/bin/env bash
# readings.sh NETCLIFF: repeats the rows of the reading of Salah, El-Badawi and Khalid (2007) whose other readings are parameters: `ok` or `WRONG`, the
# row (its number there) and what was seen. About 20 s, no privileges.
set -uo pipefail
netcliff="$(realpath "${1:?usage: readings.sh PATH-OF-NETCLIFF}")"
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
scratch="$(mktemp -d /tmp/t-review.XXXXXX)"
trap 'rm -rf "$scratch"' EXIT
export XDG_DATA_HOME="$scratch/data" NETCLIFF_STATE_DIR="$scratch/state" NO_COLOR=1
mkdir -m 0700 "$XDG_DATA_HOME" "$NETCLIFF_STATE_DIR"
wrong=0

# A figure of a point: PATH in the outcome's JSON, then the command.
figure() {
    local path="$1"
    shift
    "$netcliff" "$@" --host pentium4-2530mhz --json 2>/dev/null | python3 -c '
import json, sys
value = json.load(sys.stdin)["outcome"]
for key in sys.argv[1].split("."):
    value = value[key]
print(value["value"] if isinstance(value, dict) else value)' "$path"
}

# Whether a number lies between two.
within() { python3 -c 'import sys; low, value, high = map(float, sys.argv[1:]); sys.exit(not low <= value <= high)' "$2" "$1" "$3"; }

# The row, what was found, and between which numbers it must lie.
row() {
    if within "$2" "$3" "$4" 2>/dev/null; then
        echo "ok $1: $2"
    else
        echo "WRONG $1: $2, not between $3 and $4"
        wrong=1
    fi
}

onoff=(--size mci1998-like --link 1Gbit/s --seed 2007 --packets 200000)
timer='coalesce:usecs=50us,drops_interrupt=true'
row '002-2 interrupt of the 450 MHz machine' "$("$netcliff" predict --host pentium3-450mhz --scheme interrupt --rate 10kpps --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["point"]["host"]["interrupt"].removesuffix("us"))')" 13.229 13.231
row '002-13 (9) as printed' "$(figure throughput_pps predict --fidelity printed --scheme polling --rate 400kpps)" 162.9e3 163.0e3
row '002-16 (12) as printed' "$(figure latency_s.mean predict --fidelity printed --scheme polling --rate 10pps)" 26.0e-6 26.2e-6
row '002-17 NAPI that remembers a tick' "$(figure throughput_pps predict --scheme napi-2007:remember=true --rate 250kpps)" 141.3e3 141.5e3
row '002-20 tau = ceil(lambda T), below the step' "$(figure latency_s.mean predict --fidelity printed --scheme coalesce:usecs=50us --rate 19.9kpps)" 10e-6 10.5e-6
row '002-20 tau = ceil(lambda T), above it' "$(figure latency_s.mean predict --fidelity printed --scheme coalesce:usecs=50us --rate 20.1kpps)" 34.5e-6 35e-6
row '002-27 load of the printed b_OFF at 0.2' "$(figure offered_pps simulate --arrivals onoff:off=printed "${onoff[@]}" --rate 20%)" 130e3 145e3
row '002-31 Table 1 at 0.1, free timer' "$(figure latency_s.mean simulate --scheme "$timer,free_timer=true" --arrivals onoff "${onoff[@]}" --rate 10%)" 29.9e-6 51.3e-6
row '002-31 Table 1 at 0.6, printed b_OFF' "$(figure latency_s.mean simulate --scheme "$timer" --arrivals onoff:off=printed "${onoff[@]}" --rate 60%)" 5258e-6 7125e-6
"$netcliff" simulate --host pentium4-2530mhz --arrivals onoff "${onoff[@]}" --rate 20% --traffic "$scratch/traffic" >/dev/null 2>&1
hurst='import json, sys; print(json.load(open(sys.argv[1]))["hurst_" + sys.argv[2]]["value"])'
row '002-28 Hurst parameter by aggregated variance' "$(python3 -c "$hurst" "$scratch/traffic/traffic.json" aggregated_variance)" 0.6 0.75
row '002-28 Hurst parameter by wavelets' "$(python3 -c "$hurst" "$scratch/traffic/traffic.json" wavelets)" 0.6 0.8
row '002-29 frame sizes drawn, mean' "$(grep -o 'mean [0-9.]* bytes' "$scratch/traffic/sizes.svg" | head -1 | tr -dc '0-9.')" 556.99 557.01
row '002-46 soft timers' "$(figure cpu.poll simulate --scheme soft-timers:trigger=10us --rate 10kpps --packets 100000)" 0.0045 0.006
row '002-47 a quota that adapts' "$(figure cpu.available simulate --scheme freebsd-polling:burst_max=1000,user_frac=50% --rate 400kpps --packets 400000)" 0.48 0.52
exit "$wrong"
