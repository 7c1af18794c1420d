#!/usr/bin/env bash
# Goodput of a transfer of a number of bytes with requests beside it and without, in turn: pairs.sh NETCLIFF PAIRS [OPTIONS of stream].
# A line a pair: with, without (bit/s). pairs.py sums them up.
set -euo pipefail
netcliff=$1 pairs=$2
shift 2
one() {
    "$netcliff" stream --bytes "${BYTES:-6GiB}" --repeats 1 --cpu-meter procfs --json "$@" 2>/dev/null |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["rows"][0]["goodput_bps"]["median"])'
}
for pair in $(seq "$pairs"); do
    # The order alternates, so that drift hits both alike.
    if ((pair % 2)); then
        with=$(one --probe --probe-around 200ms "$@") without=$(one "$@")
    else
        without=$(one "$@") with=$(one --probe --probe-around 200ms "$@")
    fi
    echo "$with $without"
done
