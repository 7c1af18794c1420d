#!/usr/bin/env bash
# run.sh OUT: shows whether a NAPI poll that used its whole budget ends the round of NET_RX. Traces 2.5 s of UDP into a
# veth pair that is steered to CPU 1, with net.core.netdev_budget at 300 and at 1, and counts polls per round. Needs
# root, two CPUs and tracefs. Restores the budget at its end.
set -euo pipefail
out="${1:?usage: run.sh OUT}"
mkdir -p "$out"
mount_point="$(mktemp -d)"
mount -t tracefs none "$mount_point"
trace="$mount_point/instances/netcliff-budget-$$"
a="netcliff-budget-a-$$" b="netcliff-budget-b-$$"
budget="$(sysctl -n net.core.netdev_budget)"
receiver=""
clean() {
    [[ -z "$receiver" ]] || kill "$receiver" 2>/dev/null || true
    sysctl -qw net.core.netdev_budget="$budget"
    ip netns del "$a" 2>/dev/null || true
    ip netns del "$b" 2>/dev/null || true
    rmdir "$trace" 2>/dev/null || true
    umount "$mount_point" && rmdir "$mount_point"
}
trap clean EXIT
mkdir "$trace"
echo 16384 >"$trace/buffer_size_kb"
echo 1 >"$trace/events/napi/napi_poll/enable"
for event in softirq_entry softirq_exit; do
    echo 'vec==3' >"$trace/events/irq/$event/filter"
    echo 1 >"$trace/events/irq/$event/enable"
done
ip netns add "$a"
ip netns add "$b"
ip link add va netns "$a" type veth peer name vb netns "$b"
ip -n "$a" addr add 10.77.0.1/24 dev va
ip -n "$b" addr add 10.77.0.2/24 dev vb
ip -n "$a" link set va up
ip -n "$b" link set vb up
ip netns exec "$b" sh -c 'echo 2 >/sys/class/net/vb/queues/rx-0/rps_cpus'

receive='
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("10.77.0.2", 9))
s.settimeout(6)
try:
    while True: s.recv(64)
except socket.timeout: pass'
send='
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("10.77.0.2", 9))
end = time.time() + 2.5
while time.time() < end:
    for _ in range(200):
        try: s.send(b"x" * 18)
        except OSError: pass'
count='
import re, sys
rounds, polls, full, shared, now = 0, 0, 0, 0, 0
for line in open(sys.argv[1]):
    if "[001]" not in line: continue
    if "softirq_entry" in line: now = 0
    elif "softirq_exit" in line:
        rounds += 1
        shared += now > 1
    elif poll := re.search(r"napi_poll: .*work (\d+) budget (\d+)", line):
        polls, now = polls + 1, now + 1
        full += poll[1] == poll[2]
print(f"polls {polls}, of them with all their budget {full}; rounds {rounds}, of them with more than one poll {shared}")'
for set_to in 300 1; do
    sysctl -qw net.core.netdev_budget="$set_to"
    : >"$trace/trace"
    ip netns exec "$b" taskset 2 python3 -c "$receive" &
    receiver=$!
    sleep 0.5
    ip netns exec "$a" taskset 1 python3 -c "$send"
    echo 0 >"$trace/tracing_on"
    cp "$trace/trace" "$out/budget-$set_to.trace"
    echo 1 >"$trace/tracing_on"
    kill "$receiver"
    wait "$receiver" 2>/dev/null || true
    receiver=""
    echo "net.core.netdev_budget=$set_to: $(python3 -c "$count" "$out/budget-$set_to.trace")"
done | tee "$out/summary.txt"
