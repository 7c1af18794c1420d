#!/usr/bin/env bash
# losses.sh NETCLIFF: checks losses and their causes: load behind a slower link, sockets that no program reads, drops of
# every kind with their places. Prints one line per row of the review: `ok`, `WRONG` or `SKIPPED`, the name of the row,
# and the observation. Exit code 1: a row is WRONG.
# shellcheck disable=SC2030,SC2031 # each part is a subshell, with an environment of its own
netcliff="$(realpath "${1:?usage: losses.sh PATH-OF-NETCLIFF}")"
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
# shellcheck source=scripts/lib/review.sh
source scripts/lib/review.sh

# Load and loss: `stream` behind a token bucket and over unequal MTUs, bounds of `predict` and `limits`.
load_and_loss() (
    set -uo pipefail
    scratch="$(mktemp -d)"
    export XDG_DATA_HOME="$scratch" NETCLIFF_STATE_DIR="$scratch/state"
    mkdir -m 700 "$NETCLIFF_STATE_DIR"
    near="nra$$" far="nrb$$" agent=""
    wrong=0
    # shellcheck disable=SC2317 # the trap calls it
    cleanup() {
        [[ -z "$agent" ]] || kill "$agent" 2>/dev/null
        ip netns del "$near" 2>/dev/null
        ip netns del "$far" 2>/dev/null
        rm -rf "$scratch"
    }
    trap cleanup EXIT

    field() { python3 -c 'import json,sys; print(eval(sys.argv[1], {"r": json.load(sys.stdin)}))' "$1"; }

    if ! ip netns add "$near" || ! ip netns add "$far"; then
        echo "SKIPPED load and loss: no rights to make network namespaces"
        exit 0
    fi
    ip link add va netns "$near" type veth peer name vb netns "$far"
    ip -n "$near" addr add 10.99.1.1/24 dev va
    ip -n "$far" addr add 10.99.1.2/24 dev vb
    ip -n "$near" link set va up
    ip -n "$far" link set vb up
    "$netcliff" agent --make-key "$scratch/key" 2>/dev/null
    ip netns exec "$far" "$netcliff" agent --listen 0.0.0.0:9940 --key "$scratch/key" 2>/dev/null &
    agent=$!
    sleep 1
    stream() {
        ip netns exec "$near" "$netcliff" stream --to 10.99.1.2 --key "$scratch/key" --channel udp --time 2s --repeats 1 --json "$@" 2>/dev/null
    }

    if ip netns exec "$near" tc qdisc add dev va root tbf rate 20mbit burst 16000 limit 32000 2>/dev/null; then
        stream -b 30M -l 1470B >"$scratch/tbf.json"
        sent="$(field 'r["rows"][0]["datagrams"]["sent"]' <"$scratch/tbf.json")"
        lost="$(field 'round(100 * r["rows"][0]["datagrams"]["lost"] / r["rows"][0]["datagrams"]["sent"])' <"$scratch/tbf.json")"
        # 2.25 s (with the warm-up) at 2.55 kpps are about 5740 datagrams.
        verdict "stream -b behind tbf" "$sent datagrams, $lost % lost" test "$sent" -le 6500 -a "$lost" -ge 25 -a "$lost" -le 45
        ip netns exec "$near" tc qdisc del dev va root
    else
        echo "SKIPPED stream -b behind tbf: the kernel has no tbf"
    fi
    ip -n "$far" link set vb mtu 1450
    stream -b 5M -l 1472B >"$scratch/mtu.json"
    seen="$(field '"{sent} sent, {lost} lost".format(**r["rows"][0]["datagrams"])' <"$scratch/mtu.json")"
    all="$(field 'int(0 < r["rows"][0]["datagrams"]["sent"] == r["rows"][0]["datagrams"]["lost"] <= 1100)' <"$scratch/mtu.json")"
    verdict "stream over unequal MTUs" "$seen" test "$all" = 1

    seen="$("$netcliff" predict --host pentium4-2530mhz --rate 10Gbit/s --link 10Gbit/s --size 64B 2>&1)"
    verdict "predict above the link" "${seen:0:100}" grep -q "14.88.*Mpps" <<<"$seen"
    seen="$("$netcliff" limits --bus pcie-2x1:mps=128B --sizes 9018B --json | field 'r["rows"][0]["bps"]')"
    verdict "limits: a bound of the bus is above the 3.07 Gbit/s that were measured" "$seen bit/s" \
        python3 -c 'import sys; sys.exit(float(sys.argv[1]) * 8948 / 9018 < 3.07e9)' "$seen"
    exit "$wrong"
)

# Rows 1, 2, 3, 21 and 25: losses at sockets, programs, calibration.
socket_losses() (
    set -u
    dir=$(mktemp -d /tmp/b-review-XXXXXX)
    export XDG_DATA_HOME=$dir NETCLIFF_STATE_DIR=$dir/state
    mkdir -m 700 "$dir/state"
    space=b-srv-$$
    wrong=0
    pids=()
    # shellcheck disable=SC2317 # called by trap
    clean() {
        for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
        ip netns delete "$space" 2>/dev/null
        rm -rf "$dir"
    }
    trap clean EXIT
    say() { # row, true or false, what was seen
        if [ "$2" = true ]; then echo "ok $1: $3"; else
            echo "WRONG $1: $3"
            wrong=1
        fi
    }
    has() { case "$1" in *"$2"*) echo true ;; *) echo false ;; esac }

    if [ "$(id -u)" != 0 ] || ! command -v python3 >/dev/null || ! ip netns add "$space" 2>/dev/null; then
        echo "SKIPPED 1, 2, 3, 21: needs root, namespaces and python3"
        exit 0
    fi
    ip -n "$space" link set lo up
    within() { ip netns exec "$space" "$@"; }

    # A socket that no program reads, and a sender that runs for a limited time.
    within timeout 40 python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 5353))
time.sleep(40)' &
    pids+=($!)
    within timeout 40 python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.time() + 40
while time.time() < end:
    s.sendto(b"x" * 200, ("127.0.0.1", 5353))' &
    pids+=($!)
    sleep 1
    seen=$(within "$netcliff" headroom --host pentium4-2530mhz --fail-above 1000% --interval 2s 2>&1)
    code=$?
    # Long sentences wrap.
    seen=$(echo "$seen" | tr -s " \n" " ")
    say 1 "$([ $code = 1 ] && has "$seen" "udp 127.0.0.1:5353 of python3" || echo false)" "exit $code, ${seen%%Cliff of*}"
    say 2 "$(has "$seen" "python3 (pid")" "${seen%%Cliff of*}"
    seen=$(within "$netcliff" watch --once 2>&1)
    say 21 "$([ "$(has "$seen" "python3 (pid")" = true ] && ! echo "$seen" | tail -n +4 | grep -q '^$' && echo true || echo false)" "$(echo "$seen" | sed -n 2,5p | tr -s ' \n' ' ')"
    seen=$(within "$netcliff" results calibrate 2>&1)
    say 3 "$(has "$seen" "No calibration of this host")" "$seen"

    # Losses of a container, seen from the host: at an accept queue.
    within timeout 12 python3 -c '
import socket, time
s = socket.socket()
s.bind(("127.0.0.1", 8889))
s.listen(1)
time.sleep(12)' &
    pids+=($!)
    within timeout 12 python3 -c '
import socket, time
end = time.time() + 12
while time.time() < end:
    held = [socket.socket() for _ in range(60)]
    for s in held:
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", 8889))
    time.sleep(0.1)' &
    pids+=($!)
    sleep 1
    if [ "$(readlink /proc/self/ns/net)" = "$(readlink /proc/2/ns/net)" ]; then
        seen=$("$netcliff" headroom --host pentium4-2530mhz --fail-above 1000% --interval 2s 2>&1)
        code=$?
        seen=$(echo "$seen" | tr -s " \n" " ")
        say "kind, losses of a container" "$([ $code = 1 ] && has "$seen" "(connections) in $space: " || echo false)" "exit $code, $(grep -o "accept queues[^;)]*)[^)]*)" <<<"$seen")"
        say "kind, its socket" "$(has "$seen" "tcp 127.0.0.1:8889 of python3")" "$(grep -o 'tcp 127.0.0.1:8889[^)]*)' <<<"$seen")"
    else
        echo "SKIPPED kind, losses of a container: not in the host's own namespace"
    fi
    exit $wrong
)

# Rows of `drops` and `inspect`, in three namespaces: a sender, a router and a sink. Needs python3.
drops() (
    set -u
    here=$(mktemp -d /tmp/d-review.XXXXXX)
    export XDG_DATA_HOME=$here/data NETCLIFF_STATE_DIR=$here/state
    mkdir -m 700 "$XDG_DATA_HOME" "$NETCLIFF_STATE_DIR"
    wrong=0
    started=()

    # shellcheck disable=SC2317 # the trap calls it
    end() {
        for pid in "${started[@]}"; do kill "$pid" 2>/dev/null; done
        for name in da db dc; do ip netns delete "$name-$$" 2>/dev/null; done
        rm -rf "$here"
    }
    trap end EXIT

    ok() { echo "ok $1: $2"; }
    bad() {
        echo "WRONG $1: $2"
        wrong=1
    }
    # check ROW PATTERN TEXT: the row is right if the text contains the pattern.
    check() {
        local seen
        if seen=$(grep -m1 -E -- "$2" <<<"$3"); then ok "$1" "$(tr -s ' ' <<<"$seen")"; else bad "$1" "no /$2/ in: $(head -c 600 <<<"$3" | tr -s ' \n' ' ')"; fi
    }
    # without ROW PATTERN TEXT: the row is right if the text does not contain the pattern.
    without() {
        local seen
        if seen=$(grep -m1 -E -- "$2" <<<"$3"); then bad "$1" "$seen"; else ok "$1" "no /$2/"; fi
    }

    if [ "$(id -u)" != 0 ] || ! ip netns add "da-$$" 2>/dev/null; then
        echo "SKIPPED all: needs root and network namespaces"
        exit 0
    fi
    a=da-$$ b=db-$$ c=dc-$$
    ip netns add "$b"
    ip netns add "$c"
    ip link add d-v0 netns "$a" type veth peer name d-v1 netns "$b"
    ip link add d-w0 netns "$b" type veth peer name d-w1 netns "$c"
    ip -n "$a" addr add 10.210.1.1/24 dev d-v0
    ip -n "$b" addr add 10.210.1.2/24 dev d-v1
    ip -n "$b" addr add 10.210.2.1/24 dev d-w0
    ip -n "$c" addr add 10.210.2.2/24 dev d-w1
    for end in "$a d-v0" "$b d-v1" "$b d-w0" "$c d-w1" "$a lo" "$b lo" "$c lo"; do
        read -r space device <<<"$end"
        ip -n "$space" link set "$device" up
    done
    ip netns exec "$b" sysctl -qw net.ipv4.ip_forward=1
    ip -n "$a" route add 10.210.2.0/24 via 10.210.1.2
    ip -n "$c" route add default via 10.210.2.1

    cat >"$here/send.py" <<'P'
import socket, sys, time
to, port, size, count, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.connect((to, port))
time.sleep(1.2)
for _ in range(count):
    try:
        one.send(b"x" * size)
    except OSError:
        pass
    time.sleep(pause)
P
    cat >"$here/hold.py" <<'P'
import socket, sys, time
if sys.argv[1] == "tcp":
    one = socket.socket()
    one.bind(("0.0.0.0", 8889))
    one.listen(2)
else:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
    one.bind(("0.0.0.0", 5353))
time.sleep(60)
P
    cat >"$here/connect.py" <<'P'
import socket, time
time.sleep(1.2)
held = []
for _ in range(20):
    one = socket.socket()
    one.setblocking(False)
    try:
        one.connect(("10.210.1.2", 8889))
    except BlockingIOError:
        pass
    held.append(one)
time.sleep(1.5)
P
    inside() {
        ip netns exec "$@" &
        started+=("$!")
    }

    inside "$b" python3 "$here/hold.py" tcp
    inside "$b" python3 "$here/hold.py" udp
    sleep 0.3
    inside "$a" python3 "$here/connect.py"
    page=$("$netcliff" drops --once --interval 3s --filter 'port 8889')
    check "rank 4, full accept queue with a filter" 'TcpExt ListenOverflows .* tcp 0.0.0.0:8889 python3' "$page"
    without "rank 4, one name" 'TcpExt ListenDrops' "$page"
    check "rank 4, no bare 0" '^[0-9]+ drops of "port 8889", and [1-9]' "$page"
    inside "$a" python3 "$here/connect.py"
    page=$("$netcliff" drops --once --interval 3s --method counters --netns "$b")
    check "rank 4, by counters" 'TcpExt ListenOverflows' "$page"
    without "rank 4, one name by counters" 'TcpExt ListenDrops' "$page"

    inside "$a" python3 "$here/send.py" 10.210.1.2 5353 100 200 0.002
    page=$(ip netns exec "$b" "$netcliff" drops --once --interval 2500ms)
    check "rank 5, in a namespace its own" "; netns $b" "$page"
    check "rank 5, whose" "SOCKET_RCVBUFF.* $b .*d-v1 .*udp 0.0.0.0:5353 python3" "$page"
    inside "$a" python3 "$here/send.py" 10.210.1.2 5353 100 200 0.002
    page=$(ip netns exec "$a" "$netcliff" drops --once --interval 2500ms)
    without "rank 5, not another's" 'SOCKET_RCVBUFF' "$page"
    inside "$a" python3 "$here/send.py" 10.210.1.2 5353 100 200 0.002
    page=$("$netcliff" drops --once --interval 2500ms --all --if d-v1 --by netns)
    check "rank 5, --by and --if" "SOCKET_RCVBUFF.* $b" "$page"

    ip -n "$b" link set d-v1 mtu 1450
    inside "$a" python3 "$here/send.py" 10.210.1.2 9 1472 100 0.002
    page=$("$netcliff" drops --once --interval 2500ms --netns "$a")
    check "case, MTU of a far veth" "longer than the MTU 1450 of d-v1 in $b" "$page"
    page=$(ip netns exec "$a" "$netcliff" inspect 2>&1)
    check "case, inspect across namespaces" 'MTU 1500 here, 1450 at d-v1' "$page"
    ip -n "$b" link set d-v1 mtu 1500

    ip -n "$a" addr add 10.99.0.1/32 dev lo
    inside "$a" sh -c 'sleep 1; ping -I 10.99.0.1 -c 5 -i 0.2 -W 1 10.210.1.2 >/dev/null'
    page=$("$netcliff" drops --once --interval 3s --netns "$b")
    check "provoked, no way back" 'Icmp echo without an' "$page"

    inside "$a" python3 "$here/send.py" 10.210.2.2 5353 200 2000 0.0005
    paths=$(timeout 20 "$netcliff" drops --trace 4 --filter 'udp and dst host 10.210.2.2' --time 4s)
    most=$(awk '/^packet/ {n = 0} /d-[vw][01]/ {n++; if (n > most) most = n} END {print most + 0}' <<<"$paths")
    if [ "$most" -ge 4 ] && [ "$most" -le 24 ]; then ok "rank 7, a packet is one" "$most places of the longest"; else bad "rank 7, a packet is one" "$most places: $(head -c 400 <<<"$paths")"; fi
    check "rank 7, device and namespace" "$b +d-v1 " "$paths"

    inside "$a" python3 "$here/send.py" 10.210.1.2 9 100 400 0.005
    page=$("$netcliff" drops --netns "$b" --by flow --time 4s --interval 1s)
    advice=$(grep -c 'no program listens' <<<"$page")
    # The advice is printed once, when the drop happens.
    if [ "$advice" = 1 ]; then ok "rank 22, advice once" "$advice"; else bad "rank 22, advice once" "$advice times"; fi
    check "rank 22, total" '^TOTAL' "$page"
    check "rank 22, flows unbroken" 'udp 10.210.1.1:[0-9]+ > 10.210.1.2:9$' "$page"
    without "rank 22, no sampling of 1.0" 'Sampled' "$page"

    page=$("$netcliff" drops --once --interval 100ms --filter 'ip host ::1' 2>&1)
    check "P11, contradictions" 'ip6' "$page"
    page=$("$netcliff" drops --once --interval 100ms --filter 'less 08' 2>&1)
    check "P11, octal" 'is no length' "$page"
    page=$("$netcliff" drops --once --interval 100ms --filter 'udp port (53 or 0x1bb) or portrange 90-80' 2>&1)
    check "P11, values in brackets" 'drops of ' "$page"

    inside "$b" timeout 6 python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
time.sleep(5)' &
    started+=($!)
    inside "$a" sh -c 'sleep 1; ping -c 100 -i 0.002 -q 10.210.1.2 >/dev/null' &
    page=$("$netcliff" drops --once --interval 2s --netns "$b")
    check "kind, raw socket full" "raw sockets.*icmp.*python3" "$page"
    inside "$a" python3 -c '
import socket, time
time.sleep(1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("10.210.1.1"))
for _ in range(40): s.sendto(b"x", ("239.1.2.3", 999))' &
    page=$("$netcliff" drops --once --interval 2s --netns "$b")
    check "kind, group without a member" "multicast packet for a group" "$page"
    page=$("$netcliff" drops --once --interval 100ms --if no-such0 2>&1)
    check "kind, --if of no interface" "no such interface" "$page"
    page=$("$netcliff" drops --once --interval 100ms --pid 4194304 2>&1)
    check "kind, --pid of no process" "no such process" "$page"
    inside "$a" python3 -c '
import socket, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("d-v0", 0))
end = time.time() + 4
while time.time() < end:
    s.send(bytes.fromhex("0180c200000e02000000000188cc") + bytes(46))
    time.sleep(0.05)' &
    sleep 0.5
    page=$(inside "$b" "$netcliff" headroom --host pentium4-2530mhz --interval 2s --if d-v1 2>&1)
    check "kind, LLDP is no loss" "device d-v1: .* frames a second of protocols" "$page"
    without "kind, LLDP is no loss" "LOST NOW|device d-v1: [0-9.]+ a second" "$page"
    exit "$wrong"
)

load_and_loss || ended $?
socket_losses || ended $?
drops || ended $?
exit "$worst"
