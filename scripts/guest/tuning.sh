# Checks of settings and of undo, run by checks.sh.

tune() {
    for objective in latency cpu throughput; do
        note state
        nc tune plan --objective $objective --if eth0 || return 1
        nc tune apply --objective $objective --if eth0 --yes || { echo "$objective could not be applied"; return 1; }
        undone "$objective left something behind" || return 1
    done
    # Two equal figures lead to no decision, which is exit code 1.
    nc tune try --objective latency --if eth0 --rounds 2 --metric /x --higher -- echo '{"x": 1}'
    grep -q "Everything was set back" /out/tune.log
}

killed() {
    note state
    for wait in 0.1 0.3 0.6 1.0; do
        netcliff tune apply --objective cpu --if eth0 --yes >/dev/null 2>&1 &
        sleep $wait
        kill -9 $!
        wait $!
        undone "killed after $wait s something stayed" || return 1
    done
}

# Prints the current value: `current -g RX`, `current -l Combined`.
current() {
    ethtool "$1" eth0 2>/dev/null | awk -v key="$2:" '/^Current/ { now = 1 } now && $1 == key { print $2 }'
}

# Sets eth0 badly: half of its queues, an RSS table, small rings, each interrupt on CPU 1, RPS and XPS.
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

# Applies tune to such a device. Then nothing may be left to propose, and undo must restore all earlier settings, even
# those that tune did not change itself: a driver that creates new queues forgets their RSS, interrupts, RPS and XPS.
queues() {
    misset
    for objective in latency cpu throughput; do
        note state
        nc tune apply --objective $objective --if eth0 --yes || { echo "$objective could not be applied"; return 1; }
        echo "carrier $(cat /sys/class/net/eth0/carrier)"
        interrupts ' '
        nc inspect --if eth0 --watch 0s --objective $objective
        netcliff tune plan --objective $objective --if eth0 --json >/tmp/left.json
        grep -q '"steps":\[\]' /tmp/left.json || { cat /tmp/left.json; echo "$objective: not all was set"; return 1; }
        undone "$objective left something behind" || return 1
    done
    for wait in 0.3 0.6 1 1.5 2 3; do
        netcliff tune apply --objective throughput --if eth0 --yes >/tmp/killed.log 2>&1 &
        sleep $wait
        kill -9 $! 2>/dev/null && echo "killed after $wait s, of its settings told: $(wc -l </tmp/killed.log)"
        wait $!
        undone "killed after $wait s something stayed" || return 1
    done
    # The figure is the carrier: every measurement must begin with the link up, whichever setting was changed just
    # before.
    nc tune try --objective throughput --if eth0 --rounds 2 -- cat /sys/class/net/eth0/carrier 2>&1 | tee /tmp/try.log
    [ "$(grep -c "^  with.* the settings  *1$" /tmp/try.log)" = 2 ] || { echo "a round began without a link"; return 1; }
    unchanged "the trial left something behind"
}

# one_step KIND KEY OLD NEW: applies a plan of an MTU step and this step (KIND: rings, channels, coalesce); returns the
# exit code of apply.
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

# Unusual sizes (reported as requested and effective), and values that no driver accepts: these must be refused, and the
# step before restored.
by_hand_set() {
    nc tune undo
    up eth0
    note state
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
    unchanged "something was left behind" || return 1
    for step in "rings rx $rx 1000000" "channels combined ${queues:-1} 1000" "coalesce rx-usecs ${delay:-0} 4000000000"; do
        one_step $step && { echo "$step: not refused"; return 1; }
        unchanged "$step: something was left behind" || return 1
    done
    return 0
}

# The device is unbound from its driver while its settings are tried.
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
