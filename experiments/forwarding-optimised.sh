#!/bin/sh
# Figures 11 and 12 of seed 004 for this machine: the same forwarding plain and as one would set it up, over the frame sizes of
# RFC 2544, with the share of 1, 10 and 25 Gbit/s lines. Needs root. Rounds are interleaved.
#   experiments/forwarding-optimised.sh NETCLIFF DIRECTORY [ROUNDS]
# FRAMES in the environment narrows the sizes, such as FRAMES=64,512,1518.
# plain: connection tracking in the path, the router's work on the CPU that sends, sinks and serves everything else.
# spread: the same, the router's work on a CPU of its own. optimised: also without netfilter. xdp: the kernel's shortest path.
set -eu
netcliff=$1
out=$2
mkdir -p "$out"
for round in $(seq "${3:-1}"); do
    for set_up in "plain conntrack 0,0" "spread conntrack 0,1" "optimised route 0,1" "xdp xdp 0,1"; do
        set -- $set_up
        "$netcliff" rfc2544 throughput --forwarding "$2" --cpu "$3" --search typical --trial "${TRIAL:-100ms}" --rest 20ms --width 2% \
            --frames "${FRAMES:-standard}" --flows 64 --json --html "$out/$1-$round.html" >"$out/$1-$round.json" 2>"$out/$1-$round.log" || true
    done
done
python3 - "$out" <<'PY'
import glob, json, os, statistics, sys
rates = {}
for path in sorted(glob.glob(f"{sys.argv[1]}/*.json")):
    if not os.path.getsize(path):
        continue
    name = os.path.basename(path).rsplit("-", 1)[0]
    for size in json.load(open(path))["sizes"]:
        found = (size.get("throughput") or {}).get("found", [{}])[0]
        if found.get("lower_pps"):
            rates.setdefault((size["frame"], name), []).append((found["lower_pps"], found["end"]))
names = [name for name in ("plain", "spread", "optimised", "xdp") if any(key[1] == name for key in rates)]
print("frame," + ",".join(f"{name}_kpps,{name}_of_1G,{name}_end" for name in names))
for frame in dict.fromkeys(key[0] for key in rates):
    cells = []
    for name in names:
        had = rates.get((frame, name), [])
        if not had:
            cells += ["", "", ""]
            continue
        pps = statistics.median(rate for rate, _ in had)
        line = 1e9 / (8 * (int(frame[:-1]) + 20))
        cells += [f"{pps / 1e3:.0f}", f"{pps / line:.2f}", had[0][1]]
    print(",".join([frame, *cells]))
PY
