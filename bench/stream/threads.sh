#!/usr/bin/env bash
# threads.sh NETCLIFF [OPTIONS of stream]: prints the CPU time of each kind of thread during 8 s of a transfer with
# requests beside it.
set -euo pipefail
netcliff=$1
shift
"$netcliff" stream -t 12 --repeats 1 --cpu-meter procfs --probe "$@" >/dev/null 2>&1 &
pid=$!
sleep 3
used() { for task in /proc/"$pid"/task/*; do echo "$(cut -d' ' -f1 "$task/schedstat") $(cat "$task/comm")"; done; }
before=$(used)
sleep 8
after=$(used)
wait "$pid"
{ echo "$before" | sed 's/^/- /'; echo "$after" | sed 's/^/+ /'; } | awk '
    { time = $2; name = $3; sum[name] += ($1 == "+" ? time : -time) }
    END { for (name in sum) printf "%-14s %6.2f %% of a CPU\n", name, sum[name] / 8e9 * 100 }' | sort
