# Checks between two hosts, run by checks.sh. eth1 is in a separate network namespace, which is the far host.

apart() {
    [ -e /run/netns/far ] && return
    ip netns add far && ip link set eth1 netns far || return 1
    ip addr add 10.9.0.1/24 dev eth0 && ip -n far addr add 10.9.0.2/24 dev eth1 || return 1
    ip -n far link set eth1 up && ip -n far link set lo up
    netcliff agent --make-key /tmp/key
    for _ in $(seq 50); do
        ping -c 1 -W 1 10.9.0.2 >/dev/null && return
        sleep 0.2
    done
    echo "the two ends do not hear each other"
    return 1
}

# start_agent NAMESPACE ADDRESS [OPTION...]: starts the agent of a host; `near` is no namespace. `kill $agent` ends it.
start_agent() {
    namespace=$1 address=$2
    shift 2
    set -- env NETCLIFF_STATE_DIR="/tmp/$namespace-state" netcliff agent --listen "$address:9940" --key /tmp/key "$@"
    [ "$namespace" = near ] || set -- /bin/ip netns exec "$namespace" "$@"
    "$@" >/tmp/agent.log 2>&1 &
    agent=$!
    for _ in $(seq 100); do grep -q listens /tmp/agent.log && break; sleep 0.1; done
}

listen() { start_agent far 10.9.0.2 --allow-settings eth1 --silence 20s; }

state_and_speed() {
    state
    ethtool eth0
}

# Runs an experiment between the two hosts that changes both devices, and checks that both are restored.
between() {
    apart || return 1
    listen
    note state_and_speed
    nc run "$@" --to 10.9.0.2 --key /tmp/key --devices eth0
    code=$?
    sleep 3
    kill $agent
    cat /tmp/agent.log
    unchanged "the device was not left as it was found" || return 1
    [ $code = 0 ] || { echo "exit code $code"; return 1; }
}

# Tries settings with an experiment that uses the device. They must either be restored, or stay and then be undone.
attempt() {
    note state
    nc tune try --if eth0 --experiment /tmp/through.toml --to 10.9.0.2 --key /tmp/key --keep "$@" >/tmp/try.log
    cat /tmp/try.log
    if grep -q "The settings stay" /tmp/try.log; then
        undone "what was kept was not taken back"
    else
        grep -q "Everything was set back" /tmp/try.log || { echo "the trial came to no end"; return 1; }
        unchanged "the trial left something behind"
    fi
}

# First with the default settings. Then with a delay of 10 ms and a send buffer that is empty much earlier, so that
# correcting the settings gives more throughput.
tried() {
    apart || return 1
    listen
    printf 'kind = "transfer"\nrepeats = 2\ntime = "500ms"\nwarmup = "200ms"\n[vary]\nblock = ["64KiB"]\n' >/tmp/through.toml
    for objective in latency cpu throughput; do
        attempt --objective $objective --rounds 2 || { kill $agent; return 1; }
    done
    buffers=$(cat /proc/sys/net/ipv4/tcp_wmem)
    ethtool -C eth0 rx-usecs 10000 && echo "4096 16384 32768" >/proc/sys/net/ipv4/tcp_wmem
    sleep 1
    up eth0
    attempt --objective throughput --rounds 5
    code=$?
    kill $agent
    ethtool -C eth0 rx-usecs 3
    echo "$buffers" >/proc/sys/net/ipv4/tcp_wmem
    [ $code = 0 ] || return 1
    grep -q "The settings stay" /tmp/try.log || { echo "nothing was gained from a device set badly"; return 1; }
}

transfers() {
    cat >/tmp/features.toml <<'END'
kind = "transfer"
design = "one-at-a-time"
repeats = 2
time = "500ms"
warmup = "200ms"
[vary]
rx-checksum = ["on", "off"]
tx-checksum = ["on", "off"]
tso = ["on", "off"]
gro = ["on", "off"]
lro = ["off", "on"]
rx-usecs = ["0", "10", "50", "900"]
rx-frames = ["1", "16"]
tx-usecs = ["0", "10", "50"]
tx-frames = ["1", "16"]
adaptive-rx = ["off", "on"]
adaptive-tx = ["off", "on"]
mtu = ["1500", "4000"]
END
    between /tmp/features.toml
}

slow() {
    cat >/tmp/slow.toml <<'END'
kind = "transfer"
repeats = 2
time = "500ms"
warmup = "200ms"
[fixed]
congestion = "cubic"
[vary]
rate = ["none", "10Mbit/s", "100Mbit/s", "1Gbit/s"]
duplex = ["full", "half"]
[figure]
y = "goodput_bps"
END
    between /tmp/slow.toml && return
    # A configuration without a link must be named. The other configurations must have figures.
    [ "$(tail -1 /out/slow.log)" = "exit code 1" ] && grep -q "comes to no link of" /out/slow.log && ! grep -q "is gone" /out/slow.log
}

# For manual tests, not a part of `all`: prints, for `tune adapt`, its two parts and the driver's own adaptation, interrupts/s
# of eth0, the packets/s that arrive there, the idle share of the CPU that it interrupts, and the one-way latency of 100 requests/s.
adapting() {
    apart || return 1
    start_agent near 10.9.0.1
    for irq in $(interrupts ' ' | awk '{ print $3 }'); do echo 1 >"/proc/irq/$irq/smp_affinity_list"; done
    for _ in 1 2 3; do
        for pps in 500 3000 6000; do
            for how in interrupts polling adapt driver; do adapting_once "$pps" "$how"; done
        done
    done
    kill $agent
}

# Prints the sum of eth0's interrupts since the start, its packets received, and CPU 1's ticks: idle, softirq and all.
raised() {
    for irq in $(interrupts ' ' | awk '{ print $3 }'); do awk -v irq="$irq:" '$1 == irq { print $2 + $3 + $4 + $5 }' /proc/interrupts; done |
        awk '{ sum += $1 } END { printf "%d ", sum }'
    awk '{ printf "%d ", $1 }' /sys/class/net/eth0/statistics/rx_packets
    awk '$1 == "cpu1" { print $5, $8, $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9 }' /proc/stat
}

# adapting_once PPS METHOD: `interrupts` is rx-usecs=0, `driver` the driver's own adaptation (rx-usecs=3 of e1000e).
adapting_once() {
    delay=0 flush=0 defer=0 follower=''
    [ "$2" = driver ] && delay=3
    [ "$2" = polling ] && flush=2000000 defer=2
    ethtool -C eth0 rx-usecs $delay 2>/dev/null
    echo $flush >/sys/class/net/eth0/gro_flush_timeout
    echo $defer >/sys/class/net/eth0/napi_defer_hard_irqs
    sleep 0.5
    up eth0
    if [ "$2" = adapt ]; then
        netcliff tune adapt --if eth0 --up 1500pps --down 1kpps --poll gro_flush_timeout=2ms,napi_defer_hard_irqs=2 --for 8s >/tmp/adapt.log 2>&1 &
        follower=$!
    fi
    /bin/ip netns exec far env NETCLIFF_STATE_DIR=/tmp/far-state netcliff stream -u --block 18B -b "$(($1 * 144))bit/s" --time 6 \
        --to 10.9.0.1 --key /tmp/key --repeats 1 >/tmp/stream.log 2>&1 &
    stream=$!
    sleep 3
    /bin/ip netns exec far env NETCLIFF_STATE_DIR=/tmp/rr-state netcliff rr -u --rate 100 --time 2 \
        --to 10.9.0.1 --key /tmp/key --repeats 1 --json >/tmp/rr.json 2>/tmp/rr.log &
    rr=$!
    before=$(raised)
    sleep 2
    after=$(raised)
    wait $rr || cat /tmp/rr.log
    wait $stream || cat /tmp/stream.log
    [ -z "$follower" ] || { wait $follower; tail -1 /tmp/adapt.log; }
    forth=$(tr ',{' '\n\n' </tmp/rr.json | grep -A8 '"forth"' | grep -m1 p50_s)
    echo "$1 pps, $2: $before $after" | awk '{ all = $13 - $8
        printf "%s %s %s %d interrupts/s, %d arrived/s, idle %.2f, softirq %.2f, ", $1, $2, $3, 100 * ($9 - $4) / all, 100 * ($10 - $5) / all, ($11 - $6) / all, ($12 - $7) / all }'
    echo "$forth"
}
