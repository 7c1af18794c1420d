#!/bin/busybox sh
# What is tried in the guest, on eth0 and eth1 of one driver ($DRIVER): `sh checks.sh all`, or names with commas. What each check
# is told goes to /out/CHECK.log, its outcome to /out/results.
cd /out || exit 1
# Not busybox's, which knows no namespaces.
ip() { /bin/ip "$@"; }
ALL=inspect,tune,killed,queues,by_hand_set,gone,packet,xdp,stamps,cable,transfers,slow

say() {
    echo "$*" >>/out/results
    echo "$*"
}

# Name and CPUs of each interrupt of eth0; their numbers may change. A virtio device's belong to the function above it.
interrupts() {
    dir=/sys/class/net/eth0/device/msi_irqs
    readlink /sys/class/net/eth0/device/subsystem | grep -q virtio && dir=/sys/class/net/eth0/device/../msi_irqs
    ls $dir 2>/dev/null | while read -r irq; do
        name=$(awk -v irq="$irq:" '$1 == irq { print $NF }' /proc/interrupts)
        [ -n "$name" ] && echo "$name $(cat "/proc/irq/$irq/smp_affinity_list") $1$irq"
    done | sort | if [ -n "$1" ]; then cat; else sed 's/ [0-9]*$//'; fi
}

# Everything about eth0 that netcliff may change.
state() {
    for what in -c -g -l -x -k -a; do ethtool $what eth0 2>/dev/null; done
    ethtool eth0 2>/dev/null | grep -vi -e speed -e duplex -e detected
    cat /sys/class/net/eth0/mtu 2>/dev/null
    grep -s . /sys/class/net/eth0/queues/*/*_cpus /sys/class/net/eth0/queues/*/rps_flow_cnt
    cat /sys/class/net/eth0/napi_defer_hard_irqs /sys/class/net/eth0/gro_flush_timeout
    interrupts
    cat /proc/sys/net/core/*budget* /proc/sys/net/core/busy_* /proc/sys/net/core/netdev_max_backlog /proc/sys/net/ipv4/tcp_?mem
}

up() {
    for device in "$@"; do
        ip link set "$device" up
        for _ in $(seq 100); do
            grep -q 1 "/sys/class/net/$device/carrier" 2>/dev/null && break
            sleep 0.1
        done
    done
}

# A netcliff command, what it says kept; its exit code.
nc() {
    echo "\$ netcliff $*"
    netcliff "$@" 2>&1
    code=$?
    [ $code = 0 ] || echo "exit code $code"
    return $code
}

# ---- checks: exit code 0, or the reason on the last line

inspect() {
    nc inspect --watch 0s && nc inspect --objective latency --watch 0s || return 1
    nc inspect --json >/out/inspect.json || return 1
    rm -rf /out/capture
    nc inspect --capture /out/capture --watch 0s && nc inspect --from /out/capture --if eth0 || return 1
    grep -q "driver *$DRIVER" /out/inspect.log || { echo "the page does not name the driver"; return 1; }
}

tune() {
    for objective in latency cpu throughput; do
        state >/tmp/before
        nc tune plan --objective $objective --if eth0 || return 1
        nc tune apply --objective $objective --if eth0 --yes || { echo "$objective could not be applied"; return 1; }
        nc tune undo || return 1
        up eth0
        state >/tmp/after
        diff /tmp/before /tmp/after || { echo "$objective left something behind"; return 1; }
    done
    # Two equal figures decide nothing, which is exit code 1.
    nc tune try --objective latency --if eth0 --rounds 2 --metric /x --higher -- echo '{"x": 1}'
    grep -q "everything was set back" /out/tune.log
}

killed() {
    state >/tmp/before
    for wait in 0.1 0.3 0.6 1.0; do
        netcliff tune apply --objective cpu --if eth0 --yes >/dev/null 2>&1 &
        sleep $wait
        kill -9 $!
        wait $!
        nc tune undo || return 1
        up eth0
        state >/tmp/after
        diff /tmp/before /tmp/after || { echo "killed after $wait s something stayed"; return 1; }
    done
}

# The value in force: `current -g RX`, `current -l Combined`.
current() {
    ethtool "$1" eth0 2>/dev/null | awk -v key="$2:" '/^Current/ { now = 1 } now && $1 == key { print $2 }'
}

# eth0 as somebody has set it badly: half of its queues, an RSS table of his own, small rings, each interrupt on CPU 1, RPS and XPS.
misset() {
    for what in "-L eth0 combined 2" "-X eth0 weight 3 1" "-G eth0 rx 128 tx 128" "-C eth0 rx-usecs 200"; do
        ethtool $what 2>&1 | sed "s/^/ethtool $what: /"
    done
    sleep 1
    up eth0
    interrupts ' ' | while read -r _ _ irq; do echo 1 >"/proc/irq/$irq/smp_affinity_list"; done
    for file in /sys/class/net/eth0/queues/*/*_cpus; do echo 4 >"$file" 2>/dev/null; done
    for file in /sys/class/net/eth0/queues/*/rps_flow_cnt; do echo 256 >"$file"; done
    state
}

# What tune makes of such a device; that nothing is left to propose then; that he gets back what he had, also of what tune did not
# mean to touch: a driver that makes new queues forgets their RSS, interrupts, RPS and XPS.
queues() {
    misset
    for objective in latency cpu throughput; do
        state >/tmp/before
        nc tune apply --objective $objective --if eth0 --yes || { echo "$objective could not be applied"; return 1; }
        echo "carrier $(cat /sys/class/net/eth0/carrier)"
        interrupts ' '
        nc inspect --if eth0 --watch 0s --objective $objective
        netcliff tune plan --objective $objective --if eth0 --json >/tmp/left.json
        grep -q '"steps":\[\]' /tmp/left.json || { cat /tmp/left.json; echo "$objective: not all was set"; return 1; }
        nc tune undo || return 1
        up eth0
        state >/tmp/after
        diff /tmp/before /tmp/after || { echo "$objective left something behind"; return 1; }
    done
    for wait in 0.3 0.6 1 1.5 2 3; do
        netcliff tune apply --objective throughput --if eth0 --yes >/tmp/killed.log 2>&1 &
        sleep $wait
        kill -9 $! 2>/dev/null && echo "killed after $wait s, of its settings told: $(wc -l </tmp/killed.log)"
        wait $!
        nc tune undo || return 1
        up eth0
        state >/tmp/after
        diff /tmp/before /tmp/after || { echo "killed after $wait s something stayed"; return 1; }
    done
    # The figure is the carrier: a measurement begins with the link up, whatever was set just before.
    nc tune try --objective throughput --if eth0 --rounds 2 -- cat /sys/class/net/eth0/carrier 2>&1 | tee /tmp/try.log
    grep -q "without 1.00, with 1.00" /tmp/try.log || { echo "a round began without a link"; return 1; }
    state >/tmp/after
    diff /tmp/before /tmp/after || { echo "the trial left something behind"; return 1; }
}

# A plan of one step by hand, applied: KIND (rings, channels, coalesce) KEY OLD NEW; exit code of apply.
one_step() {
    name="eth0 $1 $2"
    step="{\"setting\":{\"kind\":\"ethtool\",\"interface\":\"eth0\",\"group\":\"$1\",\"key\":\"$2\"},\"name\":\"$name\","
    step="$step\"old\":\"$3\",\"new\":\"$4\",\"reason\":\"by hand\",\"source\":\"none\",\"command\":\"none\"}"
    mtu=$(cat /sys/class/net/eth0/mtu)
    first="{\"setting\":{\"kind\":\"mtu\",\"interface\":\"eth0\"},\"name\":\"eth0 MTU\",\"old\":\"$mtu\",\"new\":\"1400\","
    first="$first\"reason\":\"by hand\",\"source\":\"none\",\"command\":\"none\"}"
    netcliff tune plan --objective cpu --if eth0 --json | sed "s/\"steps\":\[.*\],\"notes\"/\"steps\":[$first,$step],\"notes\"/" >/tmp/plan.json
    nc tune apply --plan /tmp/plan.json --yes
}

# Odd sizes (told as requested against effective), and what no driver takes: named, and the step before it set back.
by_hand_set() {
    nc tune undo
    up eth0
    state >/tmp/before
    rx=$(current -g RX)
    queues=$(current -l Combined)
    delay=$(ethtool -c eth0 2>/dev/null | awk '$1 == "rx-usecs:" { print $2 }')
    one_step rings rx "$rx" 101
    nc tune undo
    up eth0
    [ -z "$queues" ] || [ "$queues" = n/a ] || for count in 1 3; do
        one_step channels combined "$queues" $count
        nc inspect --if eth0 --watch 0s | grep -A1 -e channels -e RSS -e interrupts
        nc tune undo
        up eth0
    done
    state >/tmp/after
    diff /tmp/before /tmp/after || { echo "something was left behind"; return 1; }
    for step in "rings rx $rx 1000000" "channels combined ${queues:-1} 1000" "coalesce rx-usecs ${delay:-0} 4000000000"; do
        one_step $step && { echo "$step: not refused"; return 1; }
        state >/tmp/after
        diff /tmp/before /tmp/after || { echo "$step: something was left behind"; return 1; }
    done
    return 0
}

# The device is taken from its driver while its settings are tried.
gone() {
    device=$(basename "$(readlink /sys/class/net/eth0/device)")
    driver=/sys/bus/pci/drivers/$(basename "$(readlink /sys/class/net/eth0/device/driver)")
    [ -e "$driver/unbind" ] && [ -e "/sys/bus/pci/devices/$device" ] || { echo "SKIPPED no PCI function to unbind"; return; }
    nc tune try --objective latency --if eth0 --rounds 3 --metric /x --higher -- \
        sh -c "echo $device >$driver/unbind 2>/dev/null; echo '{\"x\": 1}'"
    nc tune undo
    nc inspect --if eth0 --watch 0s
    echo "$device" >"$driver/bind"
    sleep 1
    up eth0
    [ -e /sys/class/net/eth0 ] || { echo "eth0 did not come back"; return 1; }
}

forward() {
    nc rfc2544 throughput --tx eth0 --rx eth1 --frames 64,512 --trial "${TRIAL:-500ms}" --settle 500ms --rest 100ms --width 20% \
        --search typical --max 500pps "$@"
}

packet() {
    forward --send-by packet --receive-by packet
}

# Both ports as far as an XDP program may change them.
ports() {
    for device in eth0 eth1; do
        for what in -k -g -l -x -c; do ethtool $what $device 2>/dev/null; done
        ip link show $device | grep -o -e 'mtu [0-9]*' -e 'xdp.*'
    done
}

# Every way that this driver has; what it has not is refused with the port's name.
xdp() {
    ports >/tmp/before
    for way in "" "--send-by packet --receive-by xdp-native" "--send-by packet --receive-by xdp-generic" \
        "--send-by xdp --receive-by packet" "--send-by xdp --receive-by xdp --both-ways" "--send-by xdp --receive-by xdp --json"; do
        forward $way >/tmp/forward.log 2>&1
        code=$?
        cat /tmp/forward.log
        [ $code -lt 2 ] || grep -q "interface eth[01]" /tmp/forward.log || { echo "$way: refused without a port's name"; return 1; }
        up eth0 eth1
        ports >/tmp/after
        diff /tmp/before /tmp/after || { echo "$way: the ports were not left as they were found"; return 1; }
    done
}

# Ports that stamp every frame are set to, and set back; others are refused by name.
stamps() {
    ethtool -T eth0
    nc rfc2544 latency --tx eth0 --rx eth1 --frames 64 --trial 500ms --settle 500ms --rest 100ms --width 20% --search typical \
        --max 500pps --repeats 3 --stamps hardware >/tmp/stamps.log 2>&1
    code=$?
    cat /tmp/stamps.log
    netcliff tune undo 2>&1 | tee /tmp/undo.log
    grep -q "nothing to set back" /tmp/undo.log || { echo "a setting stayed in the journal"; return 1; }
    case $code in
    0 | 1) return 0 ;;
    2) grep -q "eth[01]" /tmp/stamps.log || { echo "refused without a port's name"; return 1; } ;;
    *) return 1 ;;
    esac
}

# A port goes down, then the cable is pulled, in the middle of a measurement.
cable() {
    for event in down pulled; do
        TRIAL=3s
        forward >/tmp/forward.log 2>&1 &
        sleep 4
        case $event in
        down) ip link set eth1 down ;;
        pulled) echo "set_link nic1 off" >/out/monitor ;;
        esac
        sleep 3
        echo "-- after eth1 was $event:"
        for _ in $(seq 60); do kill -0 $! 2>/dev/null || break; sleep 1; done
        kill $! 2>/dev/null && echo "it went on"
        cat /tmp/forward.log
        grep -q "interface eth[01]" /tmp/forward.log || { echo "$event: no sentence names the port"; return 1; }
        [ $event = pulled ] && echo "set_link nic1 on" >/out/monitor
        sleep 1
        up eth1
    done
}

# ---- two hosts: a namespace each

apart() {
    [ -e /run/netns/near ] && return
    ip netns add near && ip netns add far || return 1
    ip link set eth0 netns near && ip link set eth1 netns far || return 1
    ip -n near addr add 10.9.0.1/24 dev eth0 && ip -n far addr add 10.9.0.2/24 dev eth1 || return 1
    ip -n near link set eth0 up && ip -n far link set eth1 up
    ip -n near link set lo up && ip -n far link set lo up
    netcliff agent --make-key /tmp/key
    for _ in $(seq 50); do
        ip netns exec near ping -c 1 -W 1 10.9.0.2 >/dev/null && return
        sleep 0.2
    done
    echo "the two ends do not hear each other"
    return 1
}

# An experiment between the two, both devices changed.
between() {
    apart || return 1
    /bin/ip netns exec far env NETCLIFF_STATE_DIR=/tmp/far-state netcliff agent --listen 10.9.0.2:9940 --key /tmp/key \
        --allow-settings eth1 --silence 20s >/tmp/agent.log 2>&1 &
    agent=$!
    for _ in $(seq 100); do grep -q listens /tmp/agent.log && break; sleep 0.1; done
    ip netns exec near sh -c "for what in -c -k; do ethtool \$what eth0; done; ethtool eth0" >/tmp/before 2>/dev/null
    echo "\$ netcliff run $1 --devices eth0"
    ip netns exec near netcliff run "$@" --to 10.9.0.2 --key /tmp/key --devices eth0 2>&1
    code=$?
    sleep 3
    ip netns exec near sh -c "for what in -c -k; do ethtool \$what eth0; done; ethtool eth0" >/tmp/after 2>/dev/null
    kill $agent
    cat /tmp/agent.log
    diff /tmp/before /tmp/after || { echo "the device was not left as it was found"; return 1; }
    [ $code = 0 ] || { echo "exit code $code"; return 1; }
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
    between /tmp/slow.toml
}

# By hand: runs what is put into the file `command` of the driver's directory, until that is `exit`; the answer is in `answer`.
by_hand() {
    while :; do
        if [ -s /out/command ]; then
            mv /out/command /tmp/command
            grep -qx exit /tmp/command && return
            . /tmp/command >/out/answer.part 2>&1
            mv /out/answer.part /out/answer
        fi
        sleep 0.2
    done
}

up eth0 eth1
[ "$1" = all ] && set -- $ALL
for check in $(echo "$1" | tr ',' ' '); do
    echo "== $check"
    "$check" >"/out/$check.log" 2>&1
    code=$?
    last=$(tail -1 "/out/$check.log")
    case $code:$last in
    0:SKIPPED*) say "SKIPPED $check: ${last#SKIPPED }" ;;
    0:*) say "passed $check" ;;
    *) say "FAILED $check: $last" ;;
    esac
done
