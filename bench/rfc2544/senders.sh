#!/bin/sh
# Measures the greatest sending rate (frames/s) of netcliff's senders, trafgen, tcpreplay and testpmd (net_af_packet,
# net_af_xdp), in interleaved rounds. Frames are 60 bytes without FCS. One CPU sends into a veth pair whose far end is
# steered to the other CPU.
#   ./senders.sh [ROUNDS] > senders.csv
# Needs root, two CPUs, iproute2, ethtool, netsniff-ng, tcpreplay, dpdk and python3. It builds netcliff's senders
# (release) unless FLAT_OUT in the environment names the built example. 3 rounds take 2 minutes, 7 rounds 4 minutes.
# Each round begins with another tool. All tools run at real-time priority 40, so that other programs of the machine do
# not affect the result. Rates do not come from the tools, but from the counters of the sending port over 2 s, once the
# tool sends: tx_packets plus tx_dropped, because frames that the far end refused were sent too. netcliff's senders are
# those of `netcliff rfc2544`, which write a number, a time and a checksum into each frame; the other tools repeat one
# frame. All frames have the same MAC address, IP address and port. (Frames to another MAC address would be discarded
# early, and the far end would return their memory to CPU 0 sooner.)
# The last lines on stderr are medians, and the ratio of netcliff's best to the best of the others in each round.
set -eu
rounds=${1:-3}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if [ -z "${FLAT_OUT:-}" ]; then
    (cd "$here/../.." && cargo build --release --locked -p netcliff-rfc2544 --example flat_out) >&2
    FLAT_OUT=${CARGO_TARGET_DIR:-$here/../../target}/release/examples/flat_out
fi
work=$(mktemp -d)
name=ncbench$$
clean() { ip netns del "$name" 2>/dev/null || true; rm -rf "$work"; }
trap clean EXIT INT TERM
ip netns add "$name"
inside() { ip netns exec "$name" "$@"; }
inside ip link add nca type veth peer name ncb
inside sh -c 'sysctl -qw net.ipv6.conf.all.disable_ipv6=1; ip link set nca up; ip link set ncb up'
inside ethtool -K nca gro off >/dev/null
inside ethtool -K ncb gro off >/dev/null
inside sh -c 'echo 2 > /sys/class/net/ncb/queues/rx-0/rps_cpus'
to=$(inside cat /sys/class/net/ncb/address)
from=$(inside cat /sys/class/net/nca/address)
python3 - "$work" "$to" "$from" <<'PY'
import struct, sys
work, to, source = sys.argv[1], *(bytes.fromhex(mac.replace(":", "")) for mac in sys.argv[2:])
ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 46, 0, 0, 64, 17, 0, bytes([198, 18, 0, 2]), bytes([198, 19, 0, 2]))
total = sum(struct.unpack("!10H", ip))
while total > 0xFFFF:
    total = (total & 0xFFFF) + (total >> 16)
ip = ip[:10] + struct.pack("!H", 0xFFFF - total) + ip[12:]
frame = to + source + b"\x08\x00" + ip + struct.pack("!HHHH", 10000, 20000, 26, 0) + bytes(18)
assert len(frame) == 60
with open(f"{work}/frame.cfg", "w") as out:
    out.write("{" + ", ".join(f"0x{byte:02x}" for byte in frame) + "}\n")
with open(f"{work}/frame.pcap", "wb") as out:
    out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for n in range(10000):
        out.write(struct.pack("<IIII", 0, n, 60, 60) + frame)
PY
sent() { inside sh -c 'cat /sys/class/net/nca/statistics/tx_packets /sys/class/net/nca/statistics/tx_dropped' | paste -sd+ | bc; }
# NAME COMMAND...: runs the command in the namespace on CPU 0, waits until it sends, and reads the port's counters for 2
# s.
watch() {
    tool=$1
    shift
    idle=$(sent)
    ip netns exec "$name" timeout -s INT -k 2 25 chrt -f 40 taskset -c 0 "$@" >"$work/$tool.log" 2>&1 </dev/null &
    pid=$!
    for _ in $(seq 150); do
        [ "$(sent)" -gt $((idle + 10000)) ] && break
        sleep 0.1
    done
    sleep 0.5
    first=$(sent); from_ns=$(date +%s%N)
    sleep 2
    last=$(sent); to_ns=$(date +%s%N)
    kill -INT $pid 2>/dev/null || true
    wait $pid 2>/dev/null || true
    echo "$round,$tool,$(((last - first) * 1000000000 / (to_ns - from_ns)))"
    # The kernel releases a queue some time after its AF_XDP socket was closed.
    sleep 0.3
}
dpdk() {
    vdev=$1
    shift
    watch "$vdev" dpdk-testpmd --no-huge -m 1024 --no-pci --no-telemetry "--file-prefix=$name$vdev$round" '--lcores=0@0,1@0' \
        "--vdev=${vdev}0,iface=nca$*" -- --forward-mode=txonly --txpkts=60 --nb-cores=1 --total-num-mbufs=8192 \
        --auto-start --stats-period=10 "--eth-peer=0,$to" --tx-ip=198.18.0.2,198.19.0.2 --tx-udp=10000,20000
}
one() {
    case $1 in
        netcliff-xdp) watch netcliff-xdp "$FLAT_OUT" nca "$to" 30 xdp ;;
        netcliff-packet) watch netcliff-packet "$FLAT_OUT" nca "$to" 30 packet ;;
        trafgen) watch trafgen trafgen -i "$work/frame.cfg" -o nca -P 1 -q -n 0 -t 1ns ;;
        tcpreplay) watch tcpreplay tcpreplay -q -i nca --topspeed --loop=100000 -K "$work/frame.pcap" ;;
        net_af_packet) dpdk net_af_packet ",qpairs=1,qdisc_bypass=1" ;;
        net_af_xdp)
            dpdk net_af_xdp
            # testpmd does not remove its XDP program.
            inside ip link set nca xdp off 2>/dev/null || true
            ;;
    esac
}
all="netcliff-xdp net_af_xdp netcliff-packet tcpreplay net_af_packet trafgen"
echo round,tool,pps | tee "$work/all.csv"
for round in $(seq "$rounds"); do
    for tool in $all; do
        one "$tool" | tee -a "$work/all.csv"
    done
    all="${all#* } ${all%% *}"
done
for log in "$work"/*.log; do tail -n 12 "$log" | sed "s|^|# $(basename "$log"): |" >&2; done
python3 - "$work/all.csv" >&2 <<'PY'
import csv, statistics, sys
rounds, tools = {}, {}
for row in csv.DictReader(open(sys.argv[1])):
    rounds.setdefault(row["round"], {})[row["tool"]] = int(row["pps"])
    tools.setdefault(row["tool"], []).append(int(row["pps"]))
for tool, rates in tools.items():
    print(f"# {tool}: median {statistics.median(rates) / 1e6:.2f} Mpps, {min(rates) / 1e6:.2f} to {max(rates) / 1e6:.2f}")
ratios = []
for rates in rounds.values():
    own = max(rate for tool, rate in rates.items() if tool.startswith("netcliff"))
    ratios.append(own / max(rate for tool, rate in rates.items() if not tool.startswith("netcliff")))
print("# netcliff's best over the best of the others:", ", ".join(f"{ratio:.2f}" for ratio in ratios))
PY
