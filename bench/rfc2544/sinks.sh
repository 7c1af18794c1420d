#!/bin/sh
# Measures what the tester reaches with each sink, in interleaved rounds: the greatest sending rate (frames/s), and the
# highest load that is forwarded.
#   ./sinks.sh NETCLIFF ROUNDS > sinks.csv
set -eu
netcliff=$1
rounds=$2
echo "round,forwarding,bytes,receive_by,sender_pps,lower_pps,limit,void_trials"
for round in $(seq "$rounds"); do
    for forwarding in route xdp; do
        for bytes in 64 1518; do
            for by in packet xdp; do
                "$netcliff" rfc2544 throughput --forwarding "$forwarding" --frames "$bytes" --receive-by "$by" --search typical \
                    --trial 50ms --rest 10ms --width 2% --json 2>/dev/null |
                    python3 -c '
import json, sys
size = json.load(sys.stdin)["sizes"][0]
found = size.get("throughput", {}).get("found", [{}])[0]
print(*sys.argv[1:], round(size["sender_pps"]), round(found.get("lower_pps") or 0), size.get("limit"),
      size["seen"]["void_trials"], sep=",")' "$round" "$forwarding" "$bytes" "$by"
            done
        done
    done
done
