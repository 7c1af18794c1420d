#!/usr/bin/env bash
# not-shown.sh TEST-BINARY [TRIALS]: shows which drops a tracing program does not see. TEST-BINARY is the binary of
# `cargo test -p netcliff-lab --test lab ledgers:: --no-run`.
#
# Needs root, bpftrace and a kernel with tracefs. Counts the packets dropped for lack of a route, by the task that was
# on the CPU, in two ways: with a program of bpftrace, and with the event of tracefs at the same tracepoint. Prints the
# tasks for which the counts differ. Runs in a separate mount namespace.
set -euo pipefail
if [ -z "${NOT_SHOWN_INSIDE:-}" ]; then
    NOT_SHOWN_INSIDE=1 exec unshare --mount "$0" "$@"
fi
binary=$1
work=$(mktemp -d)
tracing=/sys/kernel/tracing
mount -t tracefs none "$tracing"
own=$tracing/instances/netcliff-$$
mkdir "$own"
trap 'kill "${program:-}" 2>/dev/null || true; rmdir "$own"; rm -rf "$work"' EXIT
number=$(grep -oE '\{ [0-9]+, "IP_INNOROUTES"' "$tracing/events/skb/kfree_skb/format" | grep -oE '[0-9]+')
echo 32768 >"$own/buffer_size_kb"
bpftrace -e "tracepoint:skb:kfree_skb /args->reason == $number/ { @[comm] = count(); }" >"$work/program" &
program=$!
sleep 5
echo "reason == $number" >"$own/events/skb/kfree_skb/filter"
echo 1 >"$own/events/skb/kfree_skb/enable"
NETCLIFF_PROVOKED_ONLY="no route" NETCLIFF_PROVOKED_TRIALS=${2:-30} "$binary" --nocapture every_frame | grep packets
echo 0 >"$own/tracing_on"
kill -INT "$program"
wait "$program" || true
# A line of tracefs is "  task-PID  [CPU] ...", a line of bpftrace "@[task]: N".
grep -h kfree_skb: "$own/trace" | sed -E 's/^ *(.*)-[0-9]+ +\[[0-9]+\].*/\1/' | sort | uniq -c | awk '{n = $1; $1 = ""; print substr($0, 2) "\tevent\t" n}' >"$work/all"
sed -nE 's/^@\[(.*)\]: ([0-9]+)$/\1\tprogram\t\2/p' "$work/program" >>"$work/all"
awk -F '\t' '{of[$1, $2] = $3; seen[$1]; sum[$2] += $3}
    END {
        print "task\tevent\tprogram"
        for (task in seen) if (of[task, "event"] + 0 != of[task, "program"] + 0) print task "\t" of[task, "event"] + 0 "\t" of[task, "program"] + 0
        print "all\t" sum["event"] "\t" sum["program"]
    }' "$work/all"
