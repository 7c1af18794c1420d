#!/usr/bin/env bash
# pair.sh NETCLIFF_A NETCLIFF_B [ROUNDS]: request/response by two builds of netcliff, as run.sh has it, interleaved (A B B A in each
# round). Prints the median of the rounds' ratios of B's rate to A's, and their quartiles, by transport. Needs jq, chrt and root.
set -euo pipefail
A="$1" B="$2" ROUNDS="${3:-24}"
NETCLIFF_STATE_DIR="$(mktemp -d)"
export NETCLIFF_STATE_DIR
trap 'rm -rf "$NETCLIFF_STATE_DIR"' EXIT

rate() {
    chrt -f 20 "$1" rr --testbed loopback --cpu 0,1 --transport "$2" --repeats 1 --time 1s --warm-up 200ms --json 2>/dev/null |
        jq -r .rate_per_s
}

for transport in tcp udp; do
    for _ in $(seq "$ROUNDS"); do
        echo "$(rate "$A" $transport) $(rate "$B" $transport) $(rate "$B" $transport) $(rate "$A" $transport)"
    done | awk '{ print ($2 + $3) / ($1 + $4) }' | sort -g |
        awk -v of="$transport" '{ ratio[NR] = $1 } END {
            printf "%s: %.3f (%.2f to %.2f), %d rounds\n", of, ratio[int((NR + 1) / 2)], ratio[int((NR + 3) / 4)], ratio[int((3 * NR + 1) / 4)], NR }'
done
