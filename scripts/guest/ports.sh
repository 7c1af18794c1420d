# Checks of rfc2544 between two ports, run by checks.sh.

forward() {
    nc rfc2544 throughput --tx eth0 --rx eth1 --frames 64,512 --trial "${TRIAL:-500ms}" --settle 500ms --rest 100ms --width 20% \
        --search typical --max 500pps "$@"
}

packet() {
    forward --send-by packet --receive-by packet
}

# Prints the settings of both ports that an XDP program can change.
ports() {
    for device in eth0 eth1; do
        for what in -k -g -l -x -c; do ethtool $what $device 2>/dev/null; done
        ip link show $device | grep -o -e 'mtu [0-9]*' -e 'xdp.*'
    done
}

# Tests every way to send and receive. If the driver does not support one, the refusal must name the port.
xdp() {
    note ports
    for way in "" "--send-by packet --receive-by xdp-native" "--send-by packet --receive-by xdp-generic" \
        "--send-by xdp --receive-by packet" "--send-by xdp --receive-by xdp --both-ways" "--send-by xdp --receive-by xdp --json"; do
        forward $way >/tmp/forward.log 2>&1
        code=$?
        cat /tmp/forward.log
        [ $code -lt 2 ] || grep -q "interface eth[01]" /tmp/forward.log || { echo "$way: refused without a port's name"; return 1; }
        unchanged "$way: the ports were not left as they were found" || return 1
    done
}

# If the ports can stamp every frame, netcliff sets them to do so, and restores them. Other ports must be refused by
# name.
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

# During a measurement, a port goes down, and in a second one the cable is unplugged.
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
