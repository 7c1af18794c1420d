#!/usr/bin/env bash
# predictions.sh NETCLIFF: checks files that netcliff reads and the figures that it computes from them: captures as
# traffic, and the interpretations of a paper. Needs no privileges. Prints one line per row of the review: `ok`, `WRONG`
# or `SKIPPED`, the name of the row, and the observation. Exit code 1: a row is WRONG.
# shellcheck disable=SC2030,SC2031 # each part is a subshell, with an environment of its own
netcliff="$(realpath "${1:?usage: predictions.sh PATH-OF-NETCLIFF}")"
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
# shellcheck source=scripts/lib/review.sh
source scripts/lib/review.sh

# Captures of every kind, written byte by byte.
captures() (
    set -uo pipefail
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
    # row NAME PATTERN TEXT: the row is right if the text contains the pattern.
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
    # Captures of the same kinds, from a second reviewer.
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
)

# Figures of Salah, El-Badawi and Khalid (2007) whose alternative interpretations are parameters of netcliff. The rows
# have the numbers of that review. Takes about 20 s.
readings() (
    set -uo pipefail
    scratch="$(mktemp -d /tmp/t-review.XXXXXX)"
    trap 'rm -rf "$scratch"' EXIT
    export XDG_DATA_HOME="$scratch/data" NETCLIFF_STATE_DIR="$scratch/state" NO_COLOR=1
    mkdir -m 0700 "$XDG_DATA_HOME" "$NETCLIFF_STATE_DIR"
    wrong=0

    # figure PATH COMMAND...: prints one figure, by its path in the JSON outcome of the command.
    figure() {
        local path="$1"
        shift
        "$netcliff" "$@" --host pentium4-2530mhz --json 2>/dev/null | python3 -c '
import json, sys
value = json.load(sys.stdin)["outcome"]
for key in sys.argv[1].split("."):
    value = value[key]
print(value["value"] if isinstance(value, dict) else value)' "$path"
    }

    # within VALUE LOW HIGH: whether a number lies between two others.
    within() { python3 -c 'import sys; low, value, high = map(float, sys.argv[1:]); sys.exit(not low <= value <= high)' "$2" "$1" "$3"; }

    # row NAME VALUE LOW HIGH: the row is right if the value lies between the two numbers.
    row() {
        if within "$2" "$3" "$4" 2>/dev/null; then
            echo "ok $1: $2"
        else
            echo "WRONG $1: $2, not between $3 and $4"
            wrong=1
        fi
    }

    onoff=(--size mci1998-like --link 1Gbit/s --seed 2007 --packets 200000)
    timer='coalesce:usecs=50us,drops_interrupt=true'
    row '002-2 interrupt of the 450 MHz machine' "$("$netcliff" predict --host pentium3-450mhz --scheme interrupt --rate 10kpps --json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["point"]["host"]["interrupt"].removesuffix("us"))')" 13.229 13.231
    row '002-13 (9) as printed' "$(figure throughput_pps predict --fidelity printed --scheme polling --rate 400kpps)" 162.9e3 163.0e3
    row '002-16 (12) as printed' "$(figure latency_s.mean predict --fidelity printed --scheme polling --rate 10pps)" 26.0e-6 26.2e-6
    row '002-17 NAPI that remembers a tick' "$(figure throughput_pps predict --scheme napi-2007:remember=true --rate 250kpps)" 141.3e3 141.5e3
    row '002-20 tau = ceil(lambda T), below the step' "$(figure latency_s.mean predict --fidelity printed --scheme coalesce:usecs=50us --rate 19.9kpps)" 10e-6 10.5e-6
    row '002-20 tau = ceil(lambda T), above it' "$(figure latency_s.mean predict --fidelity printed --scheme coalesce:usecs=50us --rate 20.1kpps)" 34.5e-6 35e-6
    row '002-27 load of the printed b_OFF at 0.2' "$(figure offered_pps simulate --arrivals onoff:off=printed "${onoff[@]}" --rate 20%)" 130e3 145e3
    row '002-31 Table 1 at 0.1, free timer' "$(figure latency_s.mean simulate --scheme "$timer,free_timer=true" --arrivals onoff "${onoff[@]}" --rate 10%)" 29.9e-6 51.3e-6
    row '002-31 Table 1 at 0.6, printed b_OFF' "$(figure latency_s.mean simulate --scheme "$timer" --arrivals onoff:off=printed "${onoff[@]}" --rate 60%)" 5258e-6 7125e-6
    "$netcliff" simulate --host pentium4-2530mhz --arrivals onoff "${onoff[@]}" --rate 20% --traffic "$scratch/traffic" >/dev/null 2>&1
    hurst='import json, sys; print(json.load(open(sys.argv[1]))["hurst_" + sys.argv[2]]["value"])'
    row '002-28 Hurst parameter by aggregated variance' "$(python3 -c "$hurst" "$scratch/traffic/traffic.json" aggregated_variance)" 0.6 0.75
    row '002-28 Hurst parameter by wavelets' "$(python3 -c "$hurst" "$scratch/traffic/traffic.json" wavelets)" 0.6 0.8
    row '002-29 frame sizes drawn, mean' "$(grep -o 'mean [0-9.]* bytes' "$scratch/traffic/sizes.svg" | head -1 | tr -dc '0-9.')" 556.99 557.01
    row '002-46 soft timers' "$(figure cpu.poll simulate --scheme soft-timers:trigger=10us --rate 10kpps --packets 100000)" 0.0045 0.006
    row '002-47 a quota that adapts' "$(figure cpu.available simulate --scheme freebsd-polling:burst_max=1000,user_frac=50% --rate 400kpps --packets 400000)" 0.48 0.52
    exit "$wrong"
)

captures || ended $?
readings || ended $?
exit "$worst"
