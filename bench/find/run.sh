#!/bin/sh
# Repeatability of `netcliff find` and of its predictions, on the netns testbed of this machine (root, two CPUs, nothing else running).
# Usage: run.sh OUTDIR [RUNS [PART...]]
#   RUNS   runs of each kind (default 10)
#   PART   quick: find --quick; full: find, and find --quick --idle as-configured, interleaved; check: the set-ups of --check, three runs
#          each. Default: all three, in this order.
# About 15 minutes, 75 minutes and 45 minutes. Raw findings go to OUTDIR as JSON, one a run; a run whose finding is there already is not
# made again, so that a series that was broken off goes on. summarise.py reads them.
set -eu
out=${1:?usage: run.sh OUTDIR [RUNS [PART...]]}
runs=${2:-10}
case $runs in
'' | *[!0-9]*) echo "run.sh: RUNS is \"$runs\": expected a whole number" >&2; exit 2 ;;
esac
[ $# -gt 2 ] && shift 2 || set -- quick full check
netcliff=${NETCLIFF:-$(dirname "$0")/../../target/release/netcliff}
if ! "$netcliff" --version > /dev/null 2>&1; then
    echo "run.sh: $netcliff does not run: build it (cargo build --release) or name another in NETCLIFF" >&2
    exit 2
fi
mkdir -p "$out"
{ date -u; uname -a; lscpu; "$netcliff" --version; uptime; } >> "$out/machine.txt"

# A run that finds no cliff still prints its finding: exit code 1 does not end the series.
one() {
    name=$1
    shift
    [ ! -s "$out/$name.json" ] || return 0
    echo "$name: netcliff find --json --no-store $*" >> "$out/commands.txt"
    start=$(date +%s)
    code=0
    "$netcliff" find --json --no-store "$@" > "$out/$name.json.part" 2> "$out/$name.err" || code=$?
    mv "$out/$name.json.part" "$out/$name.json"
    echo "$name $(($(date +%s) - start))" >> "$out/seconds.txt"
    echo "run.sh: $name: exit code $code, load $(cut -d' ' -f1 /proc/loadavg)" >&2
    [ "$code" -lt 2 ] || { cat "$out/$name.err" >&2; exit "$code"; }
}

quick() {
    n=1
    while [ "$n" -le "$runs" ]; do
        one "quick-$n" --quick --seed "$n"
        n=$((n + 1))
    done
}

full() {
    n=1
    while [ "$n" -le "$runs" ]; do
        one "full-$n" --seed "$n"
        one "as-configured-$n" --quick --idle as-configured --seed "$n"
        n=$((n + 1))
    done
}

check() {
    n=1
    while [ "$n" -le 3 ]; do
        one "check-$n" --seed "$((100 + n))" --check size=256B --check size=512B --check size=1024B --check size=1518B \
            --check work=1us --check work=2us --check work=4us --check backlog=200 --check budget=64
        one "constant-$n" --arrivals constant --seed "$((200 + n))"
        one "socket-$n" --socket-buffer 256KiB --seed "$((300 + n))"
        n=$((n + 1))
    done
}

for part in "$@"; do
    case $part in
    quick | full | check) "$part" ;;
    *) echo "run.sh: PART is \"$part\": expected quick, full or check" >&2; exit 2 ;;
    esac
done
