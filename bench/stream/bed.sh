# Creates two namespaces joined by veth, and removes them on exit. run.sh, udp.sh and cpu.sh source this file after they
# set TOOLS, OUT and NETCLIFF.
NEAR="ncb-$$-n"
FAR="ncb-$$-f"
mkdir -p "$OUT"
servers=()

# Only an allowed congestion control can be the default of a namespace. cubic and bbr are allowed until the script ends.
ALLOWED=/proc/sys/net/ipv4/tcp_allowed_congestion_control
allowed="$(cat "$ALLOWED")"

cleanup() {
    echo "$allowed" >"$ALLOWED" || true
    for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done
    ip netns del "$NEAR" 2>/dev/null || true
    ip netns del "$FAR" 2>/dev/null || true
}
trap cleanup EXIT

for tool in ip ethtool jq "${TOOLS[@]}" "$NETCLIFF"; do
    command -v "$tool" >/dev/null || { echo "bench: $tool is missing" >&2; exit 1; }
done

echo "$allowed cubic bbr" >"$ALLOWED"
ip netns add "$NEAR"
ip netns add "$FAR"
ip -n "$NEAR" link add v0 type veth peer name v1 netns "$FAR"
for end in "$NEAR v0 1" "$FAR v1 2"; do
    read -r ns dev host <<<"$end"
    ip -n "$ns" addr add "10.77.0.$host/24" dev "$dev"
    ip -n "$ns" link set "$dev" up
    ip -n "$ns" link set lo up
done

near() { ip netns exec "$NEAR" "$@"; }

offloads() {
    for end in "$NEAR v0" "$FAR v1"; do
        read -r ns dev <<<"$end"
        ip netns exec "$ns" ethtool -K "$dev" tso "$1" gso "$1" gro "$1" tx "$1" rx "$1" >/dev/null 2>&1 || true
    done
}

# Busy, steal and all ticks of the machine.
ticks() { awk '/^cpu /{print $2+$3+$4+$7+$8, $9, $2+$3+$4+$5+$6+$7+$8+$9}' /proc/stat; }

# shares BUSY0 STEAL0 ALL0 BUSY1 STEAL1 ALL1: busy share and steal share between two readings.
shares() { awk -v b="$(($4 - $1))" -v s="$(($5 - $2))" -v a="$(($6 - $3))" 'BEGIN {printf "%.4f,%.4f", b / a, s / a}'; }

# window BUSY0 STEAL0 ALL0 BUSY1 STEAL1 ALL1: number of busy CPUs and steal share between two readings.
window() { awk -v b="$(($4 - $1))" -v s="$(($5 - $2))" -v a="$(($6 - $3))" -v n="$(nproc)" 'BEGIN {printf "%.4f,%.4f", b / a * n, s / a}'; }
