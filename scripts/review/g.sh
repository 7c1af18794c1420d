#!/bin/bash
# Repeats the rows P4, P5, P7, P10, E1 and P14 (Host) of the review of 28 November: serve, --metrics and agent --max-rate.
# Usage: scripts/review/g.sh NETCLIFF. Needs root, python3, curl, ip. At most 90 s.
set -u
program=$(realpath "${1:?the netcliff program}")
work=$(mktemp -d /tmp/g-review-XXXXXX)
chmod 755 "$work"
mkdir -m 700 "$work/state" "$work/data"
export XDG_DATA_HOME=$work/data NETCLIFF_STATE_DIR=$work/state HOME=$work TMPDIR=$work
pids=()
wrong=0
tail=$$

# shellcheck disable=SC2317,SC2329 # by trap
clean() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
    for end in a b; do ip netns del "g$tail$end" 2>/dev/null; done
    wait 2>/dev/null
    rm -rf "$work"
}
trap clean EXIT

# ROW 0|1 TEXT: right where the second is 0.
row() {
    if [ "$2" -eq 0 ]; then echo "ok $1: $3"; else
        echo "WRONG $1: $3"
        wrong=1
    fi
}

# Starts a program in the background; its output is in $work/NAME.
begin() {
    local name=$1
    shift
    : >"$work/$name"
    "$@" >>"$work/$name" 2>&1 &
    pids+=("$!")
}

# Waits for a text in $work/NAME, 10 s at most.
until_says() {
    for _ in $(seq 100); do
        grep -q -- "$2" "$work/$1" && return 0
        sleep 0.1
    done
    return 1
}

address() { sed -n 's|.*\(http://[^ ]*\).*|\1|p' "$work/$1" | head -1; }
status() { curl -s -o /dev/null -m 5 -w '%{http_code}' "$@"; }
other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }

cat >"$work/silent.py" <<'P'
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
host, port, count, text, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].encode(), float(sys.argv[5])
held = []
for _ in range(count):
    c = socket.create_connection((host, port), timeout=5)
    c.sendall(text)
    held.append(c)
print("open", flush=True)
time.sleep(seconds)
P
python=$(python3 -c 'import os,sys; print(os.path.realpath(sys.executable))')

# P4
begin p4 "$program" serve --listen 127.0.0.1:0
until_says p4 'explorer is at'
url=$(address p4)
own=$(status "${url}api/runs")
seen=""
bad=0
for path in "" api/runs api/run/1 api/watch "api/plan?objective=latency" run/1 app.js; do
    code=$(other curl -s -o /dev/null -m 5 -w '%{http_code}' "$url$path")
    [ "$code" = 403 ] || bad=1
    seen="$seen /$path $code"
done
[ "$own" = 200 ] || bad=1
row P4 "$bad" "own user $own; user 65534:$seen"

# P14
bad=0
seen=""
for host in 127.0.0.1:evil.example '[::1].evil.example:1' evil.example; do
    code=$(status -H "Host: $host" "$url")
    [ "$code" = 421 ] || bad=1
    seen="$seen $host $code;"
done
row P14-host "$bad" "$seen"

# P7, connections
port=${url##*:}
port=${port%/}
begin p7 "$python" "$work/silent.py" 127.0.0.1 "$port" 1100 'GET / HTTP/1.1' 6
until_says p7 open
code=$(curl -s -o /dev/null -m 5 -w '%{http_code} after %{time_total} s' "${url}api/runs")
bad=0
case $code in 200*) ;; *) bad=1 ;; esac
row P7-connections "$bad" "1100 connections of half a request, then $code"

# P10
"$program" agent --make-key "$work/key" 2>/dev/null
mkdir "$work/bin"
cat >"$work/bin/xdg-open" <<P
#!/bin/sh
printf '%s\n' "\$@" >"$work/opened"
P
chmod 755 "$work/bin/xdg-open"
begin p10 env PATH="$work/bin:$PATH" "$program" serve --listen 127.0.0.1:0 --open --key "$work/key"
until_says p10 'explorer is at'
sleep 1
token=$(address p10)
token=${token%/}
token=${token##*/}
opened=$(cat "$work/opened")
bad=1
if [ -n "$token" ] && ! grep -q "$token" "$work/opened" && grep -q "$token" "$opened" && [ "$(stat -c %a "$opened")" = 600 ]; then bad=0; fi
row P10 "$bad" "xdg-open was given ${opened//$token/TOKEN}, of mode $(stat -c %a "$opened" 2>/dev/null)"

# E1
begin e1 "$program" agent --listen 127.0.0.1:0 --metrics 127.0.0.1:$((20000 + $$ % 20000))
until_says e1 'agent listens'
port=$((20000 + $$ % 20000))
cat >"$work/flood.py" <<'P'
import socket, sys, threading, time
until = time.time() + float(sys.argv[2])
def flood():
    held = []
    while time.time() < until:
        try:
            held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=2))
        except OSError:
            pass
        held = held[-20:]
        time.sleep(0.005)
for _ in range(60):
    threading.Thread(target=flood).start()
P
begin flood "$python" "$work/flood.py" "$port" 6
sleep 1
served=0
for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ "$(status "http://127.0.0.1:$port/metrics")" = 200 ] && served=$((served + 1))
    sleep 0.3
done
row E1 $((served < 9)) "$served of 10 scrapes served beside 60 threads of the same address that keep silent"

# P5
ip netns add "g${tail}a" && ip netns add "g${tail}b"
ip -n "g${tail}a" link add gfar0 type veth peer name gnear0 netns "g${tail}b"
ip -n "g${tail}a" link add gfar1 type veth peer name gnear1 netns "g${tail}b"
for spec in "a gfar0 10.95.0.1" "a gfar1 10.95.1.1" "b gnear0 10.95.0.2" "b gnear1 10.95.1.2"; do
    read -r end device ip <<<"$spec"
    ip -n "g$tail$end" addr add "$ip/24" dev "$device"
    ip -n "g$tail$end" link set "$device" up
done
begin p5a ip netns exec "g${tail}a" "$program" agent --listen 10.95.1.1:9940 --key "$work/key" --allow-find gfar0 --max-rate 20kpps
until_says p5a 'agent listens'
# The most frames that came in any second, by the clock of each reading.
cat >"$work/count.py" <<'P'
import sys, time
seen, most = [], 0.0
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    at = time.monotonic()
    seen.append((at, int(open("/sys/class/net/gnear0/statistics/rx_packets").read())))
    old = [entry for entry in seen if entry[0] <= at - 1]
    if old:
        # 0.1 s of the rate more may come in any time.
        most = max(most, (seen[-1][1] - old[-1][1]) / (at - old[-1][0] + 0.1))
        seen = [old[-1]] + [entry for entry in seen if entry[0] > old[-1][0]]
    time.sleep(0.1)
print(f"most {most:.0f}")
P
begin count ip netns exec "g${tail}b" "$python" "$work/count.py" 30
begin p5 timeout 40 ip netns exec "g${tail}b" "$program" find --quick --trial 100ms --searches 1 --if gnear0 --from 10.95.1.1:9940 \
    --from 10.95.1.1:9940 --key "$work/key"
find=${pids[-1]}
until_says count most || until_says count most || until_says count most || until_says count most
most=$(sed -n 's/most //p' "$work/count")
kill -INT "$find" 2>/dev/null
why=$(grep -o '[^:]* is left of the 20kpps[^:]*' "$work/p5" | head -1)
row P5 $((${most:-0} > 20200 || ${most:-0} == 0)) "one agent named twice, at most ${most:-no} frames/s at the far end; ${why:-it shares the 20kpps}"
exit "$wrong"
