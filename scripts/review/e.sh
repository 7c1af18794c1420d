#!/usr/bin/env bash
# e.sh NETCLIFF: repeats the rows of the review on captures: `ok`, `WRONG` or `SKIPPED`, the row and what was seen.
set -uo pipefail
netcliff="$(realpath "${1:?usage: e.sh PATH-OF-NETCLIFF}")"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
export XDG_DATA_HOME="$scratch"
wrong=0
# made NAME: writes the captures of the rows, byte by byte.
python3 - "$scratch" <<'PY'
import struct, sys
place = sys.argv[1]
ip = lambda n, proto=17, extra=b"": struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(extra) + n, 0, 0, 64, proto, 0, b"\x0a\0\0\1", b"\x0a\0\0\2") + extra + bytes(n)
ether = b"\2" * 6 + b"\4" * 6 + b"\x08\0"
udp = lambda n: ether + ip(n, 17, struct.pack(">HHHH", 1, 2, n + 8, 0))
tcp = lambda n: ether + ip(n, 6, struct.pack(">HHIIBBHHH", 1, 2, 0, 0, 5 << 4, 16, 0, 0, 0))
def pcap(name, link, packets, magic=0xA1B2C3D4):
    with open(f"{place}/{name}", "wb") as out:
        out.write(struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 262144, link))
        for at, data in packets:
            out.write(struct.pack("<IIII", at, 0, len(data), len(data)) + data)
block = lambda kind, body: struct.pack("<II", kind, 12 + (len(body) + 3) // 4 * 4) + body + bytes(-len(body) % 4) + struct.pack("<I", 12 + (len(body) + 3) // 4 * 4)
shb = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
idb = lambda link: block(1, struct.pack("<HHI", link, 0, 0))
old = lambda at, data: block(2, struct.pack("<HHIIII", 0, 0, 0, at, len(data), len(data)) + data)
new = lambda at, data, number=0: block(6, struct.pack("<IIIII", number, 0, at, len(data), len(data)) + data)
open(f"{place}/old.pcapng", "wb").write(shb + idb(1) + b"".join(old(1_000_000 * n, udp(20)) for n in range(179)))
pcap("long.pcap", 1, [(n, tcp(64 * 1448 // 2)) for n in range(65)] + [(70 + n, udp(20)) for n in range(4)])
pcap("any.pcap", 113, [(n, bytes(14) + b"\x08\0" + udp(20)[14:]) for n in range(518)])
open(f"{place}/mixed.pcapng", "wb").write(shb + idb(1) + idb(127) + b"".join(new(1_000_000 * n, udp(20), n % 2) for n in range(128)))
with open(f"{place}/modified.pcap", "wb") as out:
    out.write(struct.pack(">IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 262144, 1))
    for n in range(50):
        out.write(struct.pack(">IIIIIHBB", n, 0, 62, 62, 2, 2048, 0, 0) + udp(20))
pcap("plain.pcap", 1, [(1 + n, udp(20)) for n in range(100)])
plain = open(f"{place}/plain.pcap", "rb").read()
open(f"{place}/joined.pcap", "wb").write(plain + plain)
open(f"{place}/zeros.pcap", "wb").write(plain + bytes(4096))
open(f"{place}/part1", "wb").write(plain[:3000])
open(f"{place}/part2", "wb").write(plain[3000:])
open(f"{place}/lost.pcapng", "wb").write(shb + idb(1) + b"".join(new(1_000_000 * n, udp(20)) for n in range(100)) + block(5, struct.pack("<IIIHHQ", 0, 0, 0, 5, 8, 17)))
open(f"{place}/x.snoop", "wb").write(b"snoop\0\0\0" + bytes(64))
open(f"{place}/x.xz", "wb").write(b"\xfd7zXZ\0" + bytes(64))
open(f"{place}/empty.pcap", "wb")
pcap("a,speed=2.pcap", 1, [(1 + n, udp(20)) for n in range(100)])
pcap("burst.pcap", 1, [(1, udp(20))] * 100_000 + [(2, udp(20))])
pcap("years.pcap", 1, [(n * 3_400_000, udp(20)) for n in range(100)])
PY
run() { "$netcliff" simulate --host pentium4-2530mhz --packets 1000 --arrivals "trace:$scratch/$1" "${@:2}" 2>&1; }
# row NAME PATTERN TEXT: right where the text holds the pattern.
row() {
    if grep -Eq "$2" <<<"$3"; then echo "ok $1: $(grep -Eo "$2" <<<"$3" | head -1)"; else
        echo "WRONG $1: ${3:0:200}"
        wrong=1
    fi
}
row "obsolete Packet Blocks" '"rate": ?"1pps"' "$(run old.pcapng --json)"
row "buffers before segmentation" '65 packets longer than an MTU of 1500 B.* 2[0-9]{3} frames' "$(run long.pcap)"
row "tcpdump -i any (SLL)" '"rate": ?"1pps"' "$(run any.pcap --json)"
row "interfaces of several link types" '64 packets of link type 127 \(IEEE 802.11 with radiotap\) left out' "$(run mixed.pcapng)"
row "100 packets in years" 'years.pcap.*100 packets over .* give --rate' "$(run years.pcap)"
gzip -k "$scratch/old.pcapng"
row "packed by gzip" '"rate": ?"1pps"' "$(run old.pcapng.gz --json)"
# Of the same kinds, by a second pair of eyes.
row "modified pcap, big-endian" '"rate": ?"1pps"' "$(run modified.pcap --json)"
row "captures joined by cat" 'the first 100 packets count: another capture.s header' "$(run joined.pcap)"
row "zeros at the end" 'the first 100 packets count: zeros follow' "$(run zeros.pcap)"
row "packets that the capture lacks" 'capturing program lost 17 packets' "$(run lost.pcapng)"
row "another format, by name" 'but Solaris snoop; convert it: editcap' "$(run x.snoop)"
row "another packer, by name" 'packed by xz; unpack it first' "$(run x.xz)"
row "an empty file" 'is empty' "$(run empty.pcap)"
row "options in any order" '"rate": ?"2pps"' "$(run plain.pcap,speed=2,mtu=9000 --json)"
row "a name like an option" '"rate": ?"1pps"' "$(run a,speed=2.pcap --json)"
row "standard input" 'captures are read from files' "$("$netcliff" simulate --arrivals trace:- 2>&1 </dev/null)"
row "--size of a capture" '65 packets longer than an MTU' "$("$netcliff" predict --scheme interrupt --rate 1k --size "$scratch/long.pcap" 2>&1)"
row "advise" '65 packets longer than an MTU' "$("$netcliff" advise --host pentium4-2530mhz --rate 1k --packets-each 1000 --packets-at-most 2000 --arrivals "trace:$scratch/long.pcap" 2>&1)"
printf 'title = "t"\nengines = ["model"]\nschemes = ["interrupt"]\n[host]\npreset = "pentium4-2530mhz"\n[traffic]\nsizes = ["%s"]\nrates = "1kpps..2kpps:2"\n[figure]\ny = "throughput_pps"\n' \
    "$scratch/long.pcap" >"$scratch/sizes.toml"
row "run" '65 packets longer than an MTU' "$("$netcliff" run "$scratch/sizes.toml" 2>&1)"
row "packets at one time" 'replications of [0-9]+ packets lie within bursts[^"]*' "$(run burst.pcap --json)"
row "a name that is not UTF-8" 'words here are UTF-8' "$(run $'\xff.pcap')"
if command -v zstd >/dev/null; then
    (cd "$scratch" && zstd -q part1 part2 && cat part1.zst part2.zst >parts.zst)
    row "all frames of zstd" '"rate": ?"1pps"' "$(run parts.zst --json)"
else
    echo "SKIPPED all frames of zstd: no zstd"
fi
exit "$wrong"
