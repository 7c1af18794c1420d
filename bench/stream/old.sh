#!/usr/bin/env bash
# old.sh NETCLIFF BW_TCP [ROUNDS]: bw_tcp of lmbench3 (github.com/intel/lmbench, src/bw_tcp.c with its lib_*.c, unmodified) and `netcliff stream
# --method lmbench3` in turns, over one veth pair, blocks of 64 KiB, the accepting end sends from CPU 1 to CPU 0. Prints MB/s (10^6 bytes) of both
# per round (congestion control reno, which a namespace may choose), and at the end the median of bw_tcp / netcliff. Needs root; no other program may run.
set -euo pipefail
netcliff="$1" bw_tcp="$2" rounds="${3:-7}"
pair="$(dirname "$0")/../service/pair.sh"
"$pair" up
server=""
trap '[[ -z "$server" ]] || kill "$server" 2>/dev/null; ip netns pids ncd-hut | xargs -r kill 2>/dev/null; sleep 0.2; "$pair" down' EXIT
for netns in ncd-snd ncd-hut; do ip netns exec "$netns" sysctl -qw net.ipv4.tcp_congestion_control=reno; done

# bw_tcp -s leaves its server in the background.
taskset -c 1 ip netns exec ncd-hut "$bw_tcp" -s
sleep 0.5
bw() {
    taskset -c 0 ip netns exec ncd-snd "$bw_tcp" -m 65536 -N 3 198.18.0.2 2>&1 | awk '{print $2}'
}
ours() {
    "$netcliff" stream --namespaces ncd-snd,ncd-hut --address 198.18.0.2 --cpu 1,0 --method lmbench3 --block 64KiB --congestion reno \
        --repeats 3 --json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["rows"][0]["goodput_bps"]["median"] / 8e6)'
}
ratios=()
for round in $(seq "$rounds"); do
    # The order alternates, so that drift affects both alike.
    if ((round % 2)); then
        theirs="$(bw)"
        own="$(ours)"
    else
        own="$(ours)"
        theirs="$(bw)"
    fi
    ratio="$(python3 -c "print(f'{$theirs / $own:.3f}')")"
    ratios+=("$ratio")
    echo "round $round: bw_tcp $theirs MB/s, netcliff $own MB/s, ratio $ratio"
done
printf '%s\n' "${ratios[@]}" | python3 -c 'import statistics, sys; print("median of bw_tcp / netcliff:", statistics.median(float(line) for line in sys.stdin))'
