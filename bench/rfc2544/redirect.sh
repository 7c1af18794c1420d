#!/bin/sh
# A router that is an XDP program, in native and in generic mode, and a plain route, rounds interleaved: the highest load forwarded.
# ./redirect.sh NETCLIFF ROUNDS > redirect.csv
set -eu
netcliff=$1
rounds=$2
echo "round,bytes,forwarding,device,sender_pps,lower_pps,limit,void_trials"
for round in $(seq "$rounds"); do
    for bytes in 64 1518; do
        for forwarding in xdp xdp-generic route; do
            "$netcliff" rfc2544 throughput --forwarding "$forwarding" --frames "$bytes" --search typical \
                --trial 50ms --rest 10ms --width 2% --json 2>/dev/null |
                python3 -c '
import json, sys
found = json.load(sys.stdin)
size = found["sizes"][0]
bounds = size.get("throughput", {}).get("found", [{}])[0]
mode = "native" if "native mode" in found["device"] else "generic" if "generic mode" in found["device"] else ""
print(*sys.argv[1:], mode, round(size["sender_pps"]), round(bounds.get("lower_pps") or 0), size.get("limit"),
      size["seen"]["void_trials"], sep=",")' "$round" "$bytes" "$forwarding"
        done
    done
done
