#!/bin/sh
# Repeatability of `netcliff find` and of its predictions, on the netns testbed of this machine (root, two CPUs, nothing else running).
# Usage: run.sh OUTDIR [RUNS]    RUNS of find and of find --quick each (default 10), then the set-ups of --check, three runs each.
# Takes about two hours. Raw findings go to OUTDIR as JSON, one a run; summarise.py reads them.
set -eu
out=${1:?usage: run.sh OUTDIR [RUNS]}
runs=${2:-10}
netcliff=${NETCLIFF:-$(dirname "$0")/../../target/release/netcliff}
mkdir -p "$out"
{ date -u; uname -a; lscpu; "$netcliff" --version; uptime; } > "$out/machine.txt"

# A run that finds no cliff still prints its finding: exit code 1 does not end the series.
one() {
    name=$1
    shift
    echo "$name: netcliff find $*" >> "$out/commands.txt"
    start=$(date +%s)
    "$netcliff" find --json --no-store "$@" > "$out/$name.json" 2> "$out/$name.err" || true
    echo "$name $(($(date +%s) - start))" >> "$out/seconds.txt"
}

n=1
while [ "$n" -le "$runs" ]; do
    one "quick-$n" --quick --seed "$n"
    one "full-$n" --seed "$n"
    one "quick-as-configured-$n" --quick --idle as-configured --seed "$n"
    n=$((n + 1))
done

n=1
while [ "$n" -le 3 ]; do
    one "check-$n" --seed "$((100 + n))" --check size=256B --check size=512B --check size=1024B --check size=1518B \
        --check work=1us --check work=2us --check work=4us --check backlog=200 --check budget=64
    one "constant-$n" --arrivals constant --seed "$((200 + n))"
    one "socket-$n" --socket-buffer 256KiB --seed "$((300 + n))"
    n=$((n + 1))
done
