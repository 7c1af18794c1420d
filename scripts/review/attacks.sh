#!/usr/bin/env bash
# attacks.sh NETCLIFF: repeats attacks on netcliff, through its ports and through its outputs. Prints one line per row
# of the review: `ok`, `WRONG` or `SKIPPED`, the name of the row, and the observation. Exit code 1: a row is WRONG.
# shellcheck disable=SC2030,SC2031 # each part is a subshell, with an environment of its own
netcliff="$(realpath "${1:?usage: attacks.sh PATH-OF-NETCLIFF}")"
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
# shellcheck source=scripts/lib/review.sh
source scripts/lib/review.sh

# Rows P4, P5, P7, P10, E1 and P14 (header Host): serve, --metrics and agent --max-rate. Needs python3, curl and ip.
# Takes at most 90 s.
ports() (
    set -u
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
    begin p4 "$netcliff" serve --listen 127.0.0.1:0
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
    coded P4 "$bad" "own user $own; user 65534:$seen"

    # P14
    bad=0
    seen=""
    for host in 127.0.0.1:evil.example '[::1].evil.example:1' evil.example; do
        code=$(status -H "Host: $host" "$url")
        [ "$code" = 421 ] || bad=1
        seen="$seen $host $code;"
    done
    coded P14-host "$bad" "$seen"

    # P7, connections
    port=${url##*:}
    port=${port%/}
    begin p7 "$python" "$work/silent.py" 127.0.0.1 "$port" 1100 'GET / HTTP/1.1' 6
    until_says p7 open
    code=$(curl -s -o /dev/null -m 5 -w '%{http_code} after %{time_total} s' "${url}api/runs")
    bad=0
    case $code in 200*) ;; *) bad=1 ;; esac
    coded P7-connections "$bad" "1100 connections of half a request, then $code"

    # P10
    "$netcliff" agent --make-key "$work/key" 2>/dev/null
    mkdir "$work/bin"
    cat >"$work/bin/xdg-open" <<P
#!/bin/sh
printf '%s\n' "\$@" >"$work/opened"
P
    chmod 755 "$work/bin/xdg-open"
    begin p10 env PATH="$work/bin:$PATH" "$netcliff" serve --listen 127.0.0.1:0 --open --key "$work/key"
    until_says p10 'explorer is at'
    sleep 1
    token=$(address p10)
    token=${token%/}
    token=${token##*/}
    opened=$(cat "$work/opened")
    bad=1
    if [ -n "$token" ] && ! grep -q "$token" "$work/opened" && grep -q "$token" "$opened" && [ "$(stat -c %a "$opened")" = 600 ]; then bad=0; fi
    coded P10 "$bad" "xdg-open was given ${opened//$token/TOKEN}, of mode $(stat -c %a "$opened" 2>/dev/null)"

    # E1
    begin e1 "$netcliff" agent --listen 127.0.0.1:0 --metrics 127.0.0.1:$((20000 + $$ % 20000))
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
    coded E1 $((served < 9)) "$served of 10 scrapes served beside 60 threads of the same address that keep silent"

    # P5
    ip netns add "g${tail}a" && ip netns add "g${tail}b"
    ip -n "g${tail}a" link add gfar0 type veth peer name gnear0 netns "g${tail}b"
    ip -n "g${tail}a" link add gfar1 type veth peer name gnear1 netns "g${tail}b"
    for spec in "a gfar0 10.95.0.1" "a gfar1 10.95.1.1" "b gnear0 10.95.0.2" "b gnear1 10.95.1.2"; do
        read -r end device ip <<<"$spec"
        ip -n "g$tail$end" addr add "$ip/24" dev "$device"
        ip -n "g$tail$end" link set "$device" up
    done
    begin p5a ip netns exec "g${tail}a" "$netcliff" agent --listen 10.95.1.1:9940 --key "$work/key" --allow-find gfar0 --max-rate 20kpps
    until_says p5a 'agent listens'
    # Prints the most frames that arrived in any second, by the clock of each reading.
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
    begin p5 timeout 40 ip netns exec "g${tail}b" "$netcliff" find --quick --trial 100ms --searches 1 --if gnear0 --from 10.95.1.1:9940 \
        --from 10.95.1.1:9940 --key "$work/key"
    find=${pids[-1]}
    until_says count most || until_says count most || until_says count most || until_says count most
    most=$(sed -n 's/most //p' "$work/count")
    kill -INT "$find" 2>/dev/null
    why=$(grep -o '[^:]* is left of the 20kpps[^:]*' "$work/p5" | head -1)
    coded P5 $((${most:-0} > 20200 || ${most:-0} == 0)) "one agent named twice, at most ${most:-no} frames/s at the far end; ${why:-it shares the 20kpps}"
    exit "$wrong"
)

# Rows P2, P3, P6, P8, P9, P12, P14: outputs. Uses a temporary directory, temporary devices and a temporary namespace.
outputs() (
    set -u
    work=$(mktemp -d /tmp/h-review.XXXXXX)
    space=h-review-$$
    export HOME=$work XDG_DATA_HOME=$work/data NETCLIFF_STATE_DIR=$work/state TMPDIR=$work LC_ALL=C.UTF-8
    wrong=0
    readers=()

    # shellcheck disable=SC2317,SC2329  # by trap
    clean() {
        for pid in ${readers[@]+"${readers[@]}"}; do kill "$pid" 2>/dev/null; done
        ip netns delete "$space" 2>/dev/null
        rm -rf "$work"
    }
    trap clean EXIT

    # shellcheck disable=SC2317,SC2329  # by verdict
    is() { [ "$1" = "$2" ]; }
    cd "$work" || exit 1

    # P2: a shared directory keeps its mode.
    for mode in 1777 755; do
        mkdir "shared-$mode" && chmod "$mode" "shared-$mode"
        NETCLIFF_STATE_DIR=$work/shared-$mode "$netcliff" tune undo >/dev/null 2>&1
        code=$?
        verdict P2 "NETCLIFF_STATE_DIR of mode $mode: now $(stat -c %a "shared-$mode"), exit $code" is "$(stat -c %a "shared-$mode")" "$mode"
    done

    # P3: only a regular file is replaced.
    mkfifo pipe && echo old >file && ln -s file link && echo foreign >file.new
    metrics() { timeout 30 "$netcliff" watch --once --interval 200ms --metrics-file "$1" 2>&1; }
    if mknod null c 1 3 2>/dev/null && : 2>/dev/null >null; then
        metrics null >/dev/null
        verdict P3 "--metrics-file DEVICE: $(stat -c %F null)" is "$(stat -c %F null)" "character special file"
    else
        skipped P3 "no device can be made here"
    fi
    timeout 10 cat pipe >copy &
    metrics pipe >/dev/null
    wait $!
    verdict P3 "--metrics-file PIPE: $(stat -c %F pipe), $(wc -l <copy) lines read" test -p pipe -a -s copy
    metrics link >/dev/null
    verdict P3 "--metrics-file LINK: $(stat -c %F link), $(wc -l <file) lines in its file" test -h link -a "$(wc -l <file)" -gt 10
    metrics file >/dev/null
    verdict P3 "file.new of another: $(cat file.new)" is "$(cat file.new)" foreign
    said=$(metrics pipe | tail -n 1)
    verdict P3 "a pipe without a reader: $said" grep -q "nobody reads" <<<"$said"

    # P6: a reader of the output stops reading.
    stops() {
        local command=$1 pipe=stopped-$1 pid began code
        mkfifo "$pipe"
        # shellcheck disable=SC2217  # a reader that does not read
        sleep 60 <"$pipe" &
        readers+=($!)
        # shellcheck disable=SC2094  # the pipe is both
        "$netcliff" "$command" --testbed netns --time 2s --repeats 1 -i 1ms >"$pipe" 2>"$pipe" &
        pid=$!
        sleep 6
        local left
        left=$(ip netns list | grep -c "^nc-$pid-")
        began=$(date +%s%N)
        kill -TERM "$pid" 2>/dev/null
        wait "$pid"
        code=$?
        local took=$((($(date +%s%N) - began) / 1000000))
        verdict P6 "$command -i 1ms into a full pipe: $left namespaces after the run, SIGTERM: exit $code after $took ms" \
            test "$left" -eq 0 -a "$took" -lt 3000
    }
    if [ "$(id -u)" -eq 0 ] && ip netns add "$space" 2>/dev/null; then
        stops stream
        stops rr
    else
        skipped P6 "no network namespaces"
    fi

    # P8: control characters.
    cat >points.toml <<'END'
title = "One"
engines = ["model"]
schemes = ["interrupt"]
[host]
preset = "pentium4-2530mhz"
[traffic]
rates = "1kpps..2kpps:2"
[figure]
y = "throughput_pps"
END
    "$netcliff" run points.toml --db r.db >/dev/null 2>&1
    if command -v python3 >/dev/null; then
        python3 - <<'END'
import json, sqlite3
evil = "\x1b[31m\x07\x7f\x85\x9b2J\u202e\u2066"
c = sqlite3.connect("r.db")
for i, j in c.execute("select id, json from record").fetchall():
    r = json.loads(j)
    r["provenance"]["command"] = r["provenance"]["version"] = evil
    c.execute("update record set json = ? where id = ?", (json.dumps(r), i))
c.execute("update run set command = ?, name = ?", (evil, evil))
c.commit()
END
        unseen() { python3 -c 'import sys,unicodedata
text = sys.stdin.buffer.read().decode()
print(sum(unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c not in "\n\t" for c in text))'; }
        for form in --csv --json --verbose; do
            count=$("$netcliff" results show --db r.db $form 2>&1 | unseen)
            verdict P8 "results show $form: $count control characters" is "$count" 0
        done
        count=$("$netcliff" results list --json --db r.db | unseen)
        verdict P8 "results list --json: $count control characters" is "$count" 0
        "$netcliff" compare 1 1 --db r.db --junit junit.xml >/dev/null 2>&1
        said=$(python3 -c 'import xml.dom.minidom as m; m.parse("junit.xml"); print("XML")' 2>&1 | tail -n 1)
        verdict P8 "compare --junit: $said" is "$said" XML

        # P9: the terminal disappears.
        ended=""
        for _ in 1 2 3 4 5; do
            ended+=$(
                python3 - "$netcliff" <<'END'
import fcntl, os, pty, subprocess, sys, termios, time
terminal, theirs = pty.openpty()
def own():
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.environ["TERM"] = "xterm"
child = subprocess.Popen([sys.argv[1], "watch", "--interval", "200ms"], stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=own)
os.close(theirs)
time.sleep(1)
os.close(terminal)
try:
    print(child.wait(6), end=" ")
except subprocess.TimeoutExpired:
    child.kill()
    print("hangs", end=" ")
END
            )
        done
        verdict P9 "exit codes of watch whose terminal is closed: $ended" is "${ended// /}" 11111
        said=$(
            python3 - "$netcliff" <<'END'
import fcntl, os, pty, select, signal, struct, subprocess, sys, termios, time
terminal, theirs = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30000, 30000, 0, 0))
os.environ["TERM"] = "xterm"
child = subprocess.Popen([sys.argv[1], "watch", "--interval", "200ms"], stdin=theirs, stdout=theirs, stderr=theirs)
until = time.monotonic() + 2
while time.monotonic() < until:
    if select.select([terminal], [], [], 0.05)[0]:
        os.read(terminal, 65536)
child.send_signal(signal.SIGTERM)
try:
    print(child.wait(6))
except subprocess.TimeoutExpired:
    child.kill()
    print("hangs")
END
        )
        verdict P9 "watch in 30000x30000, then SIGTERM: exit $said" test "$said" = 0 -o "$said" = 1
    else
        skipped "P8, P9" "no python3"
    fi

    # Half an export, or two joined exports, are no valid run.
    "$netcliff" results export --db r.db 1 -o whole.json >/dev/null 2>&1
    head -n 1 whole.json >half.json
    cat whole.json whole.json >joined.json
    for file in half joined; do
        said=$("$netcliff" results import --db i.db $file.json 2>&1)
        verdict P14 "results import of $file.json: $said" grep -qE "it is cut|exported runs" <<<"$said"
    done

    # P8: a name from a file is not written as a formula.
    printf 'name = "=HYPERLINK(1)"\nprotocol = "5us"\n' >host.toml
    said=$("$netcliff" predict --host host.toml --scheme interrupt --rate 1k --csv 2>/dev/null | tail -n 1 | cut -c 1-24)
    verdict P8 "a host called =HYPERLINK(1) in CSV: $said" grep -q ",'=HYPERLINK(1)," <<<"$said"

    # P12: a device is refused as a database.
    said=$("$netcliff" results list --db pipe 2>&1)
    verdict P12 "--db PIPE: $said" grep -q "is a pipe" <<<"$said"
    if mknod zero c 1 5 2>/dev/null; then
        said=$("$netcliff" results list --db zero 2>&1)
        verdict P12 "--db DEVICE: $said" grep -q "is a device" <<<"$said"
        left=$(find . -name "*-journal" | wc -l)
        verdict P12 "files *-journal beside it: $left" is "$left" 0
    fi

    # P14.
    "$netcliff" --version >/dev/full 2>/dev/null
    code=$?
    verdict P14 "--version >/dev/full: exit $code" is "$code" 1
    "$netcliff" predict --host pentium4-2530mhz --rate 1k --save --db new/r.db >/dev/null 2>&1
    verdict P14 "a new store: directory $(stat -c %a new), file $(stat -c %a new/r.db)" is "$(stat -c %a new new/r.db | xargs)" "700 600"
    if [ "$(id -u)" -eq 0 ] && command -v unshare >/dev/null; then
        "$netcliff" results export --db r.db 1 -o run.json >/dev/null 2>&1
        # Makes the record look like that of a version that did not count objects.
        sed -i 's/,"objects":[0-9]*//' run.json
        row=$(tail -n 1 run.json)
        for _ in $(seq 300); do echo "$row"; done >>run.json
        mkdir disk
        # shellcheck disable=SC2016  # expanded by the inner shell
        said=$(unshare -m sh -c 'mount -t tmpfs -o size=160k none disk || exit 1
        "$1" results list --db disk/r.db >/dev/null 2>&1
        "$1" results import --db disk/r.db run.json >/dev/null 2>&1; echo "exit $?"
        "$1" results list --json --db disk/r.db | wc -l
        head -c 1m /dev/zero >disk/fill 2>/dev/null
        "$1" results show --db r.db --html disk/page >/dev/null 2>&1; echo "exit $?"
        ls -A disk' sh "$netcliff" | xargs)
        verdict P14 "import and --html on a full disk (exit, runs, exit, files): $said" is "$said" "exit 1 0 exit 1 fill"
        name=$(printf 'h\377\0330')
        if ip -n "$space" link add "$name" type veth peer name hok 2>/dev/null; then
            ip -n "$space" link set "$name" up
            count=$(ip netns exec "$space" "$netcliff" watch --once --interval 200ms --metrics-file /dev/stdout 2>/dev/null | grep -c "^netcliff_interface_packets_total{interface=\"h..0\"")
            verdict P14 "--metrics of an interface whose name is no UTF-8: $count samples" is "$count" 2
            ip -n "$space" link add "$(printf 'h\376\0330')" type veth peer name hok2
            count=$(ip netns exec "$space" "$netcliff" watch --once --interval 200ms --metrics-file /dev/stdout 2>/dev/null | sed '/^#/d; s/ [^ ]*$//' | sort | uniq -d | wc -l)
            verdict P14 "--metrics of two names that differ in unseen characters alone: $count samples twice" is "$count" 0
            said=$(ip netns exec "$space" "$netcliff" tune plan --objective throughput --script 2>&1 | tail -n 1)
            # If there is nothing to set, the script is empty.
            verdict P14 "tune plan --script for it: $said" test "$said" = "set -e" -o "${said/a script cannot hold/}" != "$said"
        else
            skipped P14 "no veth"
        fi
    else
        skipped P14 "not root"
    fi
    new="$work/made/new.db"
    for refused in "results show 1" "results import /etc/passwd" "results calibrate 5"; do
        # shellcheck disable=SC2086  # words
        "$netcliff" $refused --db "$new" >/dev/null 2>&1
        verdict P14 "$refused --db new.db leaves nothing" test ! -e "${new%/*}"
    done
    said=$("$netcliff" result 2>&1 | grep tip)
    verdict "first use" "a mistyped command: $said" test "$said" != "${said/results/}" -a "$said" = "${said/guest/}"
    said=$("$netcliff" predict --host pentium4-2530mhz --rate 1k --size 1000 --json 2>&1 | grep -o '"size":"[^"]*"')
    verdict "first use" "a size without a unit: $said" is "$said" '"size":"1000B"'
    exit $wrong
)

ports || ended $?
outputs || ended $?
exit "$worst"
