#!/bin/bash
# Rows 1, 2, 3, 21 and 25 of the review: losses at sockets, programs, calibration. Argument: the netcliff program. Needs root.
set -u
program=$(realpath "${1:?usage: b.sh NETCLIFF}")
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
    if [ "$2" = true ]; then echo "ok $1: $3"; else echo "WRONG $1: $3"; wrong=1; fi
}
has() { case "$1" in *"$2"*) echo true ;; *) echo false ;; esac; }

if [ "$(id -u)" != 0 ] || ! command -v python3 >/dev/null || ! ip netns add "$space" 2>/dev/null; then
    echo "SKIPPED 1, 2, 3, 21: needs root, namespaces and python3"
    exit 0
fi
ip -n "$space" link set lo up
within() { ip netns exec "$space" "$@"; }

# A socket that nobody reads, and a sender of bounded time.
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
seen=$(within "$program" headroom --host pentium4-2530mhz --fail-above 1000% --interval 2s 2>&1)
code=$?
# Long sentences wrap.
seen=$(echo "$seen" | tr -s " \n" " ")
say 1 "$([ $code = 1 ] && has "$seen" "udp 127.0.0.1:5353 of python3" || echo false)" "exit $code, ${seen%%Cliff of*}"
say 2 "$(has "$seen" "python3 (pid")" "${seen%%Cliff of*}"
seen=$(within "$program" watch --once 2>&1)
say 21 "$([ "$(has "$seen" "python3 (pid")" = true ] && ! echo "$seen" | tail -n +4 | grep -q '^$' && echo true || echo false)" "$(echo "$seen" | sed -n 2,5p | tr -s ' \n' ' ')"
seen=$(within "$program" results calibrate 2>&1)
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
    seen=$("$program" headroom --host pentium4-2530mhz --fail-above 1000% --interval 2s 2>&1)
    code=$?
    seen=$(echo "$seen" | tr -s " \n" " ")
    say "kind, losses of a container" "$([ $code = 1 ] && has "$seen" "(connections) in $space: " || echo false)" "exit $code, $(grep -o "accept queues[^;)]*)[^)]*)" <<<"$seen")"
    say "kind, its socket" "$(has "$seen" "tcp 127.0.0.1:8889 of python3")" "$(grep -o 'tcp 127.0.0.1:8889[^)]*)' <<<"$seen")"
else
    echo "SKIPPED kind, losses of a container: not in the host's own namespace"
fi
exit $wrong
