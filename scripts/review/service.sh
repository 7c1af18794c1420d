#!/usr/bin/env bash
# service.sh NETCLIFF: repeats the rows of the review on a service of one's own: `ok`, `WRONG` or `SKIPPED`, the row and what was seen.
set -uo pipefail
netcliff="$(realpath "${1:?usage: service.sh PATH-OF-NETCLIFF}")"
scratch="$(mktemp -d)"
export XDG_DATA_HOME="$scratch" NETCLIFF_STATE_DIR="$scratch/state"
mkdir -m 700 "$NETCLIFF_STATE_DIR"
trap 'rm -rf "$scratch"' EXIT
wrong=0

# row NAME SEEN TEST...: one line; the row is right where the test succeeds.
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
# Sends datagrams back, 4 ms each, from a process that has cut itself loose.
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
exit "$wrong"
