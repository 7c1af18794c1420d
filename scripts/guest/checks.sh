#!/bin/busybox sh
# Runs checks in the guest on eth0 and eth1, which use the driver $DRIVER: `sh checks.sh all`, or names separated by
# commas. The output of each check is written to /out/CHECK.log, its result to /out/results.
cd /out || exit 1
# The ip of iproute2: that of busybox has no namespaces.
ip() { /bin/ip "$@"; }
ALL=inspect,tune,killed,queues,by_hand_set,gone,packet,xdp,stamps,cable,tried,transfers,slow

say() {
    echo "$*" >>/out/results
    echo "$*"
}

# Prints name and CPUs of each interrupt of eth0 (with an argument also its number, which can change). The interrupts of
# a virtio device belong to the PCI function above it.
interrupts() {
    dir=/sys/class/net/eth0/device/msi_irqs
    readlink /sys/class/net/eth0/device/subsystem | grep -q virtio && dir=/sys/class/net/eth0/device/../msi_irqs
    ls $dir 2>/dev/null | while read -r irq; do
        name=$(awk -v irq="$irq:" '$1 == irq { print $NF }' /proc/interrupts)
        [ -n "$name" ] && echo "$name $(cat "/proc/irq/$irq/smp_affinity_list") $1$irq"
    done | sort | if [ -n "$1" ]; then cat; else sed 's/ [0-9]*$//'; fi
}

# Prints every setting of eth0 that netcliff can change.
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

# Runs a netcliff command, logs it, and returns its exit code.
nc() {
    echo "\$ netcliff $*"
    netcliff "$@" 2>&1
    code=$?
    [ $code = 0 ] || echo "exit code $code"
    return $code
}

# note WHAT: stores the output of the function WHAT, for `unchanged` and `undone`.
note() {
    noted=$1
    $noted >/tmp/before
}

# unchanged REASON: checks that the function prints the same, once the links are up; prints REASON if it does not.
unchanged() {
    up $(ls /sys/class/net | grep '^eth')
    $noted >/tmp/after
    diff /tmp/before /tmp/after || { echo "$1"; return 1; }
}

# The same check after `tune undo`.
undone() {
    nc tune undo && unchanged "$1"
}

# ---- checks: exit code 0, or the reason on the last line

inspect() {
    nc inspect --watch 0s && nc inspect --objective latency --watch 0s || return 1
    nc inspect --json >/out/inspect.json || return 1
    rm -rf /out/capture
    nc inspect --capture /out/capture --watch 0s && nc inspect --from /out/capture --if eth0 || return 1
    grep -q "driver *$DRIVER" /out/inspect.log || { echo "the page does not name the driver"; return 1; }
}

# For manual tests: runs the commands written to the file `command` in the driver's directory, and writes their output
# to `answer`. A line `exit` ends it.
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

for part in tuning ports hosts; do . "/$part.sh"; done

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
