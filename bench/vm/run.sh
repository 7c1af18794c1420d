#!/bin/sh
# Interrupt moderation of real drivers in guests of QEMU: what `netcliff find --testbed vm:DRIVER` simulates with its calibration against what
# it measures, for six rx-usecs. Root, two CPUs or more, nothing else running.
# Usage: run.sh OUTDIR [RUNS [DRIVER...]]
#   RUNS    runs of each driver (default 3)
#   DRIVER  default: e1000e igb
# Taken from the environment:
#   NETCLIFF  default: target/release/netcliff of this checkout
#   QEMU      default: qemu-system-x86_64; igb needs 8.0 or newer. QEMU_igb, QEMU_e1000e: one for that driver only
#   KERNEL    default: the newest in /boot
# Raw findings go to OUTDIR as JSON, one a run; a run whose finding is there already is not made again, so that a series that was broken off
# goes on. Then summarise.py prints what is within the bar.
set -eu
here=$(dirname "$0")
out=${1:?usage: run.sh OUTDIR [RUNS [DRIVER...]]}
runs=${2:-3}
case $runs in
'' | *[!0-9]*) echo "run.sh: RUNS is \"$runs\": expected a whole number" >&2; exit 2 ;;
esac
[ $# -gt 2 ] && shift 2 || set -- e1000e igb
netcliff=${NETCLIFF:-$here/../../target/release/netcliff}
if ! "$netcliff" --version > /dev/null 2>&1; then
    echo "run.sh: $netcliff does not run: build it (cargo build --release) or name another in NETCLIFF" >&2
    exit 2
fi
mkdir -p "$out"
{
    date -u
    uname -a
    lscpu
    "$netcliff" --version
    "${QEMU:-qemu-system-x86_64}" --version
    uptime
} >> "$out/machine.txt" 2>&1 || true

one() {
    name=$1
    driver=$2
    seed=$3
    [ ! -s "$out/$name.json" ] || return 0
    eval "qemu=\${QEMU_$(echo "$driver" | tr - _):-\${QEMU:-qemu-system-x86_64}}"
    # One packet in 10,000 cannot be told in half a second of an emulated guest. One search a cliff, three trials a load: the speed of an
    # emulated CPU differs from boot to boot, so that runs tell more than searches within one.
    set -- --testbed "vm:$driver" --vm-qemu "$qemu" --quick --loss 1e-3 --trial 500ms --searches 1 --repeats 3 --seed "$seed"
    [ -z "${KERNEL:-}" ] || set -- "$@" --vm-kernel "$KERNEL"
    for usecs in 0 10 20 50 100 250; do
        set -- "$@" --check "rx-usecs=$usecs"
    done
    echo "$name: netcliff find --json --no-store $*" >> "$out/commands.txt"
    start=$(date +%s)
    code=0
    "$netcliff" find --json --no-store "$@" > "$out/$name.json.part" 2> "$out/$name.err" || code=$?
    # A run without a cliff of its own still prints its finding: exit code 1 does not end the series.
    if [ ! -s "$out/$name.json.part" ]; then
        echo "run.sh: $name: no finding, exit code $code: $(tail -1 "$out/$name.err")" >&2
        rm -f "$out/$name.json.part"
        return 0
    fi
    mv "$out/$name.json.part" "$out/$name.json"
    echo "$name $(($(date +%s) - start))" >> "$out/seconds.txt"
    echo "run.sh: $name: exit code $code after $(($(date +%s) - start)) s, load $(cut -d' ' -f1 /proc/loadavg)" >&2
}

run=1
while [ "$run" -le "$runs" ]; do
    for driver in "$@"; do
        one "$driver-$run" "$driver" "$run"
    done
    run=$((run + 1))
done
python3 "$here/summarise.py" "$out" | tee "$out/summary.txt"
