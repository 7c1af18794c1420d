#!/usr/bin/env bash
# kills.sh NETCLIFF OUT [KILLS] [SEED]: kills the client or the agent of a `find` between two namespaces with SIGKILL at
# random times, with --from and --of in turn. Checks that the other end finishes within 5 s, that no load continues,
# that measured records are stored, and that the agent accepts the next client. Writes one line per kill to OUT. Needs
# root. The script creates the namespaces and removes them at its end.
set -u
netcliff=$(realpath "$1") out=$2 kills=${3:-20} seed=${4:-1}
RANDOM=$seed
work=$(mktemp -d /tmp/netcliff-kills.XXXXXX)
near=nckills-$$-near far=nckills-$$-far
failed=0

cleanup() {
    for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done
    wait 2>/dev/null
    ip netns del "$near" 2>/dev/null
    ip netns del "$far" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT

ip netns add $near && ip netns add $far || exit 2
ip -n $near link add near0 type veth peer name far0 netns $far
ip -n $near link add near1 type veth peer name far1 netns $far
ip -n $near addr add 10.96.1.1/24 dev near0
ip -n $far addr add 10.96.1.2/24 dev far0
ip -n $near addr add 10.96.2.1/24 dev near1
ip -n $far addr add 10.96.2.2/24 dev far1
for device in near0 near1 lo; do ip -n $near link set $device up; done
for device in far0 far1 lo; do ip -n $far link set $device up; done
for end in $near:near0 $far:far0; do
    ip netns exec "${end%:*}" sh -c "echo 2 >/sys/class/net/${end#*:}/queues/rx-0/rps_cpus"
done
mkdir -p "$work/near" "$work/far"
HOME=$work/far "$netcliff" agent --make-key "$work/key" 2>/dev/null

# Runs netcliff in a namespace, with a separate home and state directory.
inside() {
    local space=$1 home=$2
    shift 2
    exec ip netns exec "$space" env -u XDG_DATA_HOME -u XDG_STATE_HOME HOME="$home" NETCLIFF_STATE_DIR="$home/state" "$netcliff" "$@"
}

agent_up() {
    # The log of an earlier agent would also contain the line "agent listens on".
    rm -f "$work/agent.log"
    inside $far "$work/far" agent --listen 10.96.2.2:9940 --key "$work/key" --allow-find far0 2>"$work/agent.log" &
    agent=$!
    for _ in $(seq 100); do
        grep -q "agent listens on" "$work/agent.log" && return
        sleep 0.1
    done
    echo "the agent does not listen: $(cat "$work/agent.log")" >&2
    exit 2
}

received() { ip netns exec "$1" cat "/sys/class/net/$2/statistics/rx_packets"; }

# Prints the time (ms) until an end receives fewer than 20 packets in 0.1 s, at most 6 s.
silent_ms() {
    local began last now
    began=$(date +%s%N)
    last=$(received "$1" "$2")
    while :; do
        sleep 0.1
        now=$(received "$1" "$2")
        [ $((now - last)) -lt 20 ] && break
        [ $(($(date +%s%N) - began)) -gt 6000000000 ] && break
        last=$now
    done
    echo $((($(date +%s%N) - began) / 1000000))
}

say() { echo "$*" | tee -a "$out"; }

say "# $("$netcliff" --version), $(uname -r), $(nproc) CPUs, seed $seed, $(date -u +%Y-%m-%dT%H:%M:%SZ)"
say "# kill way victim at_ms other_ended_ms load_silent_ms records kept_state next verdict"
for kill in $(seq "$kills"); do
    case $((kill % 4)) in
    0) way=--from victim=agent ;;
    1) way=--from victim=client ;;
    2) way=--of victim=agent ;;
    3) way=--of victim=client ;;
    esac
    loaded=$near:near0
    [ "$way" = --of ] && loaded=$far:far0
    rm -rf "$work/near" && mkdir -p "$work/near"
    agent_up
    inside $near "$work/near" find --quick --trial 100ms --loss 1e-3 --searches 2 --json --if near0 --sender-cpu 0 \
        "$way" 10.96.2.2:9940 --key "$work/key" >"$work/out.json" 2>"$work/err" &
    client=$!
    # A time between the first packets and the end of a run, which takes about 25 s.
    at_ms=$((1000 + RANDOM % 20000))
    sleep "$(printf '%d.%03d' $((at_ms / 1000)) $((at_ms % 1000)))"
    began=$(date +%s%N)
    ended_ms=- verdict=ok
    if ! kill -0 $client 2>/dev/null; then
        verdict="run-was-over"
    elif [ "$victim" = agent ]; then
        kill -9 $agent
        for _ in $(seq 120); do
            kill -0 $client 2>/dev/null || break
            sleep 0.05
        done
        ended_ms=$((($(date +%s%N) - began) / 1000000))
        kill -0 $client 2>/dev/null && verdict=FAILED:client-goes-on
    else
        kill -9 $client
        for _ in $(seq 120); do
            grep -qE "ended early|ended (load|find)" "$work/agent.log" && break
            sleep 0.05
        done
        ended_ms=$((($(date +%s%N) - began) / 1000000))
    fi
    wait $client 2>/dev/null
    quiet_ms=$(silent_ms "${loaded%:*}" "${loaded#*:}")
    [ "$quiet_ms" -gt 5000 ] && verdict=FAILED:load-goes-on
    [ "$ended_ms" != - ] && [ "$ended_ms" -gt 5000 ] && verdict=FAILED:slow
    # The number of records of the run in the client's store, and the state of the run.
    records=$(HOME=$work/near NETCLIFF_STATE_DIR=$work/near/state "$netcliff" results list 2>/dev/null |
        awk '$1 ~ /^[0-9]+$/ && $2 ~ /^20/ { records = $7; state = $6 } END { print records == "" ? "0 none" : records " " state }')
    # Check that the agent, or a new agent if it was killed, accepts the next client.
    [ "$victim" = agent ] && { wait $agent 2>/dev/null; agent_up; }
    next=ok
    before=$(grep -cE "started (load|find)" "$work/agent.log")
    inside $near "$work/near" find --quick --json --if near0 --no-store --sender-cpu 0 \
        "$way" 10.96.2.2:9940 --key "$work/key" >"$work/next.json" 2>"$work/next.err" &
    client=$!
    # The agent has accepted the client when it has started a test for it. Whether a load starts in time is not tested
    # here.
    for _ in $(seq 150); do
        [ "$(grep -cE "started (load|find)" "$work/agent.log")" -gt "$before" ] && break
        sleep 0.1
    done
    [ "$(grep -cE "started (load|find)" "$work/agent.log")" -gt "$before" ] || next="FAILED:$(tail -1 "$work/next.err")"
    [ "$next" = ok ] || verdict=FAILED:next
    kill -INT $client 2>/dev/null
    wait $client 2>/dev/null
    kill -INT $agent 2>/dev/null
    wait $agent 2>/dev/null
    # Check that no process remains in either namespace. The output of `tune undo` goes into the line of this kill.
    stays=$(ip netns pids $near; ip netns pids $far)
    [ -n "$stays" ] && verdict=FAILED:processes-stay
    undo=$(HOME=$work/near NETCLIFF_STATE_DIR=$work/near/state "$netcliff" tune undo 2>&1 | tr '\n' ' ')
    say "$kill $way $victim $at_ms $ended_ms $quiet_ms $records $next $verdict # undo: $undo"
    case $verdict in FAILED*) failed=$((failed + 1)) ;; esac
done
say "# $failed of $kills failed"
exit $((failed > 0))
