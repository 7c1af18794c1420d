#!/bin/sh
# Figures 11 and 12 of seed 004 for this machine: the same forwarding plain and as one would set it up, over the frame sizes of
# RFC 2544, with the share of 1, 10 and 25 Gbit/s lines and the simulator's prediction beside it. Needs root and two CPUs. Rounds
# are interleaved.
#   experiments/forwarding-optimised.sh NETCLIFF DIRECTORY [ROUNDS]
# FRAMES in the environment narrows the sizes, such as FRAMES=64,512,1518; TRIAL the trials (100ms), RULES the rules (100).
# plain: a packet filter's rules in the path, the router's work on the CPU that sends, sinks and serves everything else.
# spread: the same, the router's work on a CPU of its own (RPS). optimised: also without the rules. xdp: the shortest path.
# Out: a table as CSV on stdout, DIRECTORY/summary.html with the figures, DIRECTORY/SETUP-ROUND.{json,html,log}.
set -eu
netcliff=$1
out=$2
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
rules="--rules ${RULES:-100}"
mkdir -p "$out"
for round in $(seq "${3:-1}"); do
    for set_up in "plain 0,0 netfilter $rules" "spread 0,1 netfilter $rules" "optimised 0,1 route" "xdp 0,1 xdp"; do
        # shellcheck disable=SC2086 # words are what it holds
        set -- $set_up
        name=$1
        cpus=$2
        shift 2
        "$netcliff" rfc2544 throughput --cpu "$cpus" --forwarding "$@" --search typical --trial "${TRIAL:-100ms}" --rest 20ms --width 2% \
            --frames "${FRAMES:-standard}" --flows 64 --json --html "$out/$name-$round.html" >"$out/$name-$round.json" 2>"$out/$name-$round.log" || true
    done
done
python3 "$here/forwarding-optimised.py" "$out"
