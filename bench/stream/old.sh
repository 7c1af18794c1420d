#!/usr/bin/env bash
# old.sh NETCLIFF METHOD PROGRAM [ROUNDS]: the program whose method `netcliff stream --method METHOD` follows, and that command, in turns over one
# veth pair, blocks of 64 KiB, congestion control reno (which a namespace may choose). Prints MB/s (10^6 bytes) of both per round, and at the end the
# median of program / netcliff. Needs root; no other program may run. METHOD and PROGRAM, from unmodified sources (lmbench2: but for the type of a number, below):
#   lmbench3  src/bw_tcp.c of github.com/intel/lmbench, with its lib_*.c
#   lmbench2  src/bw_tcp.c of github.com/ricarkol/lmbench2, with its lib_*.c, -DNO_PORTMAPPER; sed 's/n, nbytes;/n; long nbytes;/; s/= atoi/= atol/': 5 s at this speed are
#             more bytes than its int holds, and it then shows nonsense
#   ttcp      github.com/shawnostermann/ttcp
# With lmbench the accepting end sends from CPU 1 to CPU 0, with ttcp the connecting end from CPU 0 to CPU 1.
set -euo pipefail
netcliff="$1" method="$2" program="$3" rounds="${4:-7}"
pair="$(dirname "$0")/../service/pair.sh"
"$pair" up
server=""
trap '[[ -z "$server" ]] || kill "$server" 2>/dev/null; ip netns pids ncd-hut | xargs -r kill 2>/dev/null; sleep 0.2; "$pair" down' EXIT
for netns in ncd-snd ncd-hut; do ip netns exec "$netns" sysctl -qw net.ipv4.tcp_congestion_control=reno; done
near() { taskset -c 0 ip netns exec ncd-snd "$@"; }
far() { taskset -c 1 ip netns exec ncd-hut "$@"; }

# bw_tcp -s leaves its server in the background.
[[ "$method" == ttcp ]] || far "$program" -s
sleep 0.5
theirs() {
    case "$method" in
    lmbench3) near "$program" -m 65536 -N 3 198.18.0.2 2>&1 | awk '{print $2}' ;;
    lmbench2) near "$program" 198.18.0.2 2>&1 | awk '/MB\/sec/ {print $(NF - 1)}' ;;
    ttcp)
        far "$program" -r -s -l 65536 >/dev/null 2>&1 &
        server=$!
        sleep 0.2
        near "$program" -t -s -l 65536 -n 65536 198.18.0.2 2>&1 | awk '/real seconds/ {print $2 / 1e6 / $5}'
        wait "$server"
        server=""
        ;;
    esac
}
cpus=1,0
[[ "$method" != ttcp ]] || cpus=0,1
ours() {
    "$netcliff" stream --namespaces ncd-snd,ncd-hut --address 198.18.0.2 --cpu $cpus --method "$method" --block 64KiB --congestion reno \
        --repeats 3 --json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["rows"][0]["goodput_bps"]["median"] / 8e6)'
}
ratios=()
for round in $(seq "$rounds"); do
    # The order alternates, so that drift affects both alike.
    if ((round % 2)); then
        theirs="$(theirs)"
        own="$(ours)"
    else
        own="$(ours)"
        theirs="$(theirs)"
    fi
    ratio="$(python3 -c "print(f'{$theirs / $own:.3f}')")"
    ratios+=("$ratio")
    echo "round $round: $method $theirs MB/s, netcliff $own MB/s, ratio $ratio"
done
printf '%s\n' "${ratios[@]}" | python3 -c 'import statistics, sys; print("median of program / netcliff:", statistics.median(float(line) for line in sys.stdin))'
