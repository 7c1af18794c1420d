#!/bin/sh
# Frames a second flat out of netcliff's sender beside trafgen, tcpreplay and testpmd (net_af_packet, net_af_xdp): 60 bytes
# without FCS, one CPU to send from, a veth pair whose far end is steered to the other CPU, rounds interleaved.
# Needs root, two CPUs, iproute2, ethtool, netsniff-ng, tcpreplay, dpdk, python3.
#   ./senders.sh NETCLIFF [ROUNDS] > senders.csv
# All run at real-time priority 40, so that other programs of the machine do not decide.
# Each other tool is looked at from outside, by the counters of its port over 2 s from the second second on (tx_packets plus
# tx_dropped: what the far end refused was sent, too). netcliff sends 0.3 s and says what it reached; its thread also reads
# every frame back at the far end, which the others do not.
set -eu
netcliff=$1
rounds=${2:-5}
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
# NAME COMMAND...: runs it for 4 s in the namespace on CPU 0 and looks at the port's counters.
watch() {
    tool=$1
    shift
    ip netns exec "$name" timeout -s INT -k 2 4 chrt -f 40 taskset -c 0 "$@" >"$work/$tool.log" 2>&1 </dev/null &
    pid=$!
    sleep 1.2
    first=$(sent); from_ns=$(date +%s%N)
    sleep 2
    last=$(sent); to_ns=$(date +%s%N)
    wait $pid 2>/dev/null || true
    echo "$round,$tool,$(((last - first) * 1000000000 / (to_ns - from_ns)))"
}
dpdk() {
    vdev=$1
    shift
    watch "$vdev" dpdk-testpmd --no-huge -m 1024 --no-pci --no-telemetry "--file-prefix=$name$vdev$round" '--lcores=0@0,1@0' \
        "--vdev=${vdev}0,iface=nca$*" -- --forward-mode=txonly --txpkts=60 --nb-cores=1 --total-num-mbufs=8192 \
        --auto-start --stats-period=10
}
echo round,tool,pps
for round in $(seq "$rounds"); do
    pps=$(inside "$netcliff" rfc2544 loss --tx nca --rx ncb --frames 64 --trial 10ms --max 1kpps --cpu 0,1 --json 2>/dev/null |
        python3 -c 'import json,sys; print(round(json.load(sys.stdin)["sizes"][0]["sender_pps"]))')
    echo "$round,netcliff,$pps"
    watch trafgen trafgen -i "$work/frame.cfg" -o nca -P 1 -q -n 0 -t 1ns
    watch tcpreplay tcpreplay -q -i nca --topspeed --loop=100000 -K "$work/frame.pcap"
    dpdk net_af_packet ",qpairs=1,qdisc_bypass=1"
    dpdk net_af_xdp
    # It leaves its XDP program behind, and netcliff refuses a port with another tool's.
    inside ip link set nca xdp off 2>/dev/null || true
done
for log in "$work"/*.log; do tail -n 12 "$log" | sed "s|^|# $(basename "$log"): |" >&2; done
