#!/usr/bin/env bash
# service.sh NETCLIFF: repeats the findings of the review about measuring a service that the user provides. Prints one
# line per row of the review: `ok`, `WRONG` or `SKIPPED`, the name of the row, and the observation. Exit code 1: a row
# is WRONG.
set -uo pipefail
netcliff="$(realpath "${1:?usage: service.sh PATH-OF-NETCLIFF}")"
scratch="$(mktemp -d)"
export XDG_DATA_HOME="$scratch" NETCLIFF_STATE_DIR="$scratch/state"
mkdir -m 700 "$NETCLIFF_STATE_DIR"
trap 'rm -rf "$scratch"' EXIT
wrong=0

# row NAME SEEN TEST...: prints one line; the row is right if the test succeeds.
row() {
    if "${@:3}"; then echo "ok $1: $2"; else
        echo "WRONG $1: $2"
        wrong=1
    fi
}
if [[ "$(id -u)" != 0 ]]; then
    echo "SKIPPED a service of one's own: no rights to make network namespaces"
    exit 0
fi
# A service in a detached process that returns datagrams and takes 4 ms for each.
cat >"$scratch/echo_service.py" <<'PYTHON'
import os, socket, time
if os.fork():
    os._exit(0)
os.setsid()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 5300))
while True:
    data, peer = s.recvfrom(2048)
    time.sleep(0.004)
    s.sendto(data, peer)
PYTHON
find_service() { timeout 80 "$netcliff" find --quick --trial 300ms --searches 1 --width 20% --no-store --json "$@" 2>"$scratch/stderr"; }
running() { pgrep -fc "$scratch/echo_service.py"; }

found="$(find_service --service "python3 $scratch/echo_service.py" --request udp:0000ff --match 0:2 --port 5300 --loss 1% --p99 100ms)"
cliff="$(python3 -c 'import json,sys; c=json.load(sys.stdin)["cliff_rps"]; print(int(c["value"] if isinstance(c, dict) else c))' <<<"$found")"
row "the cliff of one's own service, 250 requests/s at most" "${cliff:-none} requests/s" test "${cliff:-0}" -ge 80 -a "${cliff:-0}" -le 330
row "what the service forked ends with the run" "$(running) left" test "$(running)" = 0
find_service --service 'echo no zone >&2; exit 7' --request http:/ >/dev/null
row "a service that does not start" "$(tail -n 2 "$scratch/stderr" | tr '\n' ' ')" grep -q "exit status 7" "$scratch/stderr"
find_service --service true --request udp:00 >/dev/null
row "a service without a port" "$(tail -n 1 "$scratch/stderr")" grep -q -- "--port" "$scratch/stderr"
# Another program has the port, the answers are wrong, the port is another one, the service ends during the run, and TLS
# cannot be established.
cat >"$scratch/wrong_service.py" <<'PYTHON'
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("0.0.0.0", int(sys.argv[1])))
s.listen(64)
end = time.time() + float(sys.argv[2])
while time.time() < end:
    s.settimeout(max(0.01, end - time.time()))
    try:
        c, _ = s.accept()
        c.recv(4096)
        c.sendall(b"SSH-2.0-other\r\n")
        c.close()
    except OSError:
        pass
PYTHON
said() { tail -n 4 "$scratch/stderr" | tr '\n' ' '; }
find_service --service "python3 $scratch/wrong_service.py 80 30" --request http:/ >/dev/null
row "a service that answers wrongly" "$(said)" grep -q "answers, but not as http does" "$scratch/stderr"
find_service --service "python3 $scratch/wrong_service.py 8080 30" --request http:/ >/dev/null
row "a service at another port" "$(said)" grep -q "listens on tcp 0.0.0.0:8080" "$scratch/stderr"
python3 "$scratch/wrong_service.py" 18080 20 &
other=$!
sleep 0.5
find_service --testbed loopback --service "sleep 30" --port 18080 --request http:/ >/dev/null
row "a port that another program has" "$(said)" grep -q "is used by another program" "$scratch/stderr"
find_service --to 127.0.0.1:18080 --request https:/ --insecure >/dev/null
row "TLS to a service without it" "$(said)" grep -q "TLS" "$scratch/stderr"
kill "$other"
find_service --service true --request http:/ --insecure >/dev/null
row "--insecure without TLS" "$(said)" grep -q -- "--insecure: nothing is encrypted" "$scratch/stderr"
exit "$wrong"
