#!/usr/bin/env bash
# Repeats what document 004 has of placement (rows 12, 13, 17, 19 of its table, and 17 and 23 of document 000), on a captured igb, the model
# and a veth of a namespace of its own. Argument: the program. A line a row: ok, WRONG or SKIPPED, and what was seen.
set -u
netcliff=$(realpath "${1:?usage: placing.sh NETCLIFF}")
fixtures=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../crates/host/tests/fixtures")
work=$(mktemp -d /tmp/placing-review.XXXXXX)
space=placing-review-$$
export HOME=$work XDG_DATA_HOME=$work/data NETCLIFF_STATE_DIR=$work/state TMPDIR=$work LC_ALL=C.UTF-8
wrong=0

# shellcheck disable=SC2317,SC2329  # by trap
clean() {
    ip netns delete "$space" 2>/dev/null
    rm -rf "$work"
}
trap clean EXIT

verdict() {
    local row=$1 seen=$2
    shift 2
    if "$@"; then echo "ok $row: $seen"; else echo "WRONG $row: $seen" && wrong=1; fi
}
skipped() { echo "SKIPPED $1: $2"; }
cd "$work" || exit 1

# The captured igb: four receive and four transmit queues, four CPUs.
mkdir igb
awk -v dir=igb '/^== / { if (file) close(file); file = dir "/" $2; system("mkdir -p \"$(dirname " file ")\""); next } file { print > file }' "$fixtures/igb.tree"
places() { "$netcliff" tune plan --objective throughput --if eth0 --design "$1" --from igb --json | grep -o '"name":"eth0 interrupt [^"]*","old":"[^"]*","new":"[^"]*"' | sed 's/.*interrupt \([^"]*\)".*"new":"\([0-9]*\)"/\1=\2/' | paste -sd' '; }
pairing=$(places pairing) spread=$(places spread)
# shellcheck disable=SC2317,SC2329  # by verdict
apart() {
    [ -n "$spread" ] && [ "$pairing" != "$spread" ] || return 1
    for queue in 0 1 2 3; do
        [ "$(grep -o "eth0-rx-$queue=[0-9]*" <<<"$spread" | cut -d= -f2)" != "$(grep -o "eth0-tx-$queue=[0-9]*" <<<"$spread" | cut -d= -f2)" ] || return 1
    done
}
verdict 004/19 "--design spread on an igb with four CPUs: $spread" apart

seen=$("$netcliff" simulate --queues 4:map=spread,on=0/1/2/3,transmit=4us --rate 100kpps --packets 20000 --json 2>&1)
cores=$(grep -o '"role":"[a-z]*","core":[0-9]*' <<<"$seen" | grep -o '[0-9]*$' | sort -u | wc -l)
verdict 004/19 "map=spread on four cores: eight vectors on $cores cores" test "$cores" = 4
seen=$("$netcliff" simulate --queues 4:map=smt,on=0/1/2/3 --rate 100kpps 2>&1 | head -n 1)
verdict 004/19 "map=smt with on: $seen" grep -q "leave out map=smt or on" <<<"$seen"

# Hashed fields of UDP without ports, as an igb comes up.
sed -i '0,/"ntuple_rules": 0/s//"ntuple_rules": 0, "hash_fields": {"tcp4": "sdfn", "udp4": "sd"}/' igb/netlink.json
seen=$("$netcliff" inspect --from igb --if eth0 2>&1 | grep -A3 -i "4-tuple" | head -n 4)
verdict 004/12 "$(head -n 1 <<<"$seen")" grep -q "UDP 4-tuple not hashed" <<<"$seen"
seen=$("$netcliff" tune plan --objective throughput --if eth0 --from igb 2>&1 | grep -m 1 "rx-flow-hash")
verdict 004/12 "plan: $seen" grep -q "rx-flow-hash udp4 sdfn" <<<"$seen"

if ! ip netns add "$space" 2>/dev/null; then
    skipped "000/23 004/13" "no namespace can be made here"
    exit "$wrong"
fi
ip netns exec "$space" ip link add p0 type veth peer name p1
for setting in pause-rx=off rx-usecs@1=8 hash-udp4=sdfn steer-udp4-53=1 header-split=on; do
    seen=$(ip netns exec "$space" timeout 20 "$netcliff" tune set "$setting" --if p0 --dry-run 2>&1)
    code=$?
    verdict "000/17 000/23 004/13" "tune set $setting on a veth: exit $code, $(tail -n 1 <<<"$seen" | cut -c1-120)" test "$code" = 2 -a -n "$seen"
done
seen=$(ip netns exec "$space" timeout 20 "$netcliff" tune set pause=off --if p0 2>&1)
verdict 000/23 "tune set pause=off: $(head -n 1 <<<"$seen" | cut -c1-120)" grep -q "pause-rx" <<<"$seen"

# One session: what it sets is in the journal, and undone.
before=$(ip netns exec "$space" cat /sys/class/net/p0/gro_flush_timeout)
ip netns exec "$space" timeout 20 "$netcliff" tune set gro_flush_timeout=20us gro=on --if p0 >/dev/null 2>&1
set_to=$(ip netns exec "$space" cat /sys/class/net/p0/gro_flush_timeout)
ip netns exec "$space" timeout 20 "$netcliff" tune undo >/dev/null 2>&1
after=$(ip netns exec "$space" cat /sys/class/net/p0/gro_flush_timeout)
verdict 51/session "tune set gro_flush_timeout: $before, $set_to, after undo $after" test "$before" = "$after" -a "$set_to" = 20000
exit "$wrong"
