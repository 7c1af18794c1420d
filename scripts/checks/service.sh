#!/usr/bin/env bash
# service.sh [--suites "bookworm trixie"]: tests the .deb that `make dist` wrote to dist/ for this processor, in a bare
# Debian root with systemd as process 1. The agent must be off after installation, be started by its socket, run as a
# separate user with two capabilities, be restarted by an upgrade, and be stopped by removal. The root has its own
# namespaces and cgroup tree, and does not use this machine's systemd. Prints one line per step. Exit code 1: a step
# failed. Needs root, mmdebstrap, Debian's mirror, and a mounted cgroup2 file system.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/dist/lib.sh
source scripts/dist/lib.sh
# shellcheck source=scripts/lib/debian.sh
source scripts/lib/debian.sh

suites="bookworm trixie" failed=0
while (($#)); do
    case "$1" in
    --suites) suites="${2:?--suites NAMES}" && shift 2 ;;
    *) echo "service: '$1' is not an option; use: service.sh [--suites NAMES]" >&2 && exit 2 ;;
    esac
done
version="$(workspace_version)"
deb="dist/netcliff_${version}_$(debian_arch "$(uname -m)").deb"
[[ "$(id -u)" == 0 && -f "$deb" ]] || {
    echo "service: needs root, and $deb (make dist)" >&2
    exit 2
}
cgroup2="$(findmnt --noheadings --first-only --types cgroup2 --output TARGET || true)"
[[ -n "$cgroup2" ]] || {
    echo "SKIPPED: service: no cgroup2 file system is mounted"
    exit
}
work="$(mktemp -d /var/tmp/netcliff-service.XXXXXX)"
ours="$cgroup2/netcliff-service-$$"
# shellcheck disable=SC2317 # by the trap
cleanup() {
    find "$ours" -depth -type d -exec rmdir {} + 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT

# boot ROOT: runs its systemd until it powers off, for at most two minutes.
boot() {
    mkdir -p "$ours"
    # shellcheck disable=SC2016 # expanded by the inner shell
    (
        echo "$BASHPID" >"$ours/cgroup.procs"
        exec timeout --signal KILL 120 unshare --mount --uts --ipc --pid --net --cgroup --fork --kill-child --propagation private \
            bash -ec '
            root="$1"
            mount --bind "$root" "$root"
            mount -t proc proc "$root/proc"
            mount -t sysfs -o ro sysfs "$root/sys"
            mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
            mount -t tmpfs -o mode=755 tmpfs "$root/dev"
            for device in null zero full random urandom tty; do
                touch "$root/dev/$device"
                mount --bind "/dev/$device" "$root/dev/$device"
            done
            mkdir "$root/dev/pts" "$root/dev/shm"
            mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
            ln -s pts/ptmx "$root/dev/ptmx"
            mount -t tmpfs -o mode=755 tmpfs "$root/run"
            ip link set lo up
            cd "$root"
            mkdir -p old
            pivot_root . old
            umount -l old
            exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --show-status=0' \
            _ "$1" </dev/null >"$work/systemd.log" 2>&1
    ) || true
}

# Prints the script that a unit runs in the root, step by step. The first step that fails ends it.
steps() {
    cat <<'STEPS'
#!/bin/sh
step() {
    # sh -e does not stop at a failing `! A` in `! A; ! B`, nor at a failing A in `A && B; C`: such steps would pass.
    if sh -ec "$2" >/root/said 2>&1; then
        echo "passed: $1"
    else
        echo "FAILED: $1"
        tail -n 15 /root/said
        journalctl --no-pager -n 15 -u netcliff-agent.service -u netcliff-agent.socket
        systemctl --no-block poweroff
        exit 1
    fi
}
step "install" "dpkg -i /root/now.deb"
step "off after installing" "! systemctl is-enabled netcliff-agent.socket && ! systemctl is-active netcliff-agent.socket && ! systemctl is-active netcliff-agent.service"
rating=$(LC_ALL=C systemd-analyze security --no-pager netcliff-agent.service | sed -n 's/.*exposure level for .*: \([0-9.]*\) .*/\1/p')
step "exposure by systemd-analyze security: $rating" "test ${rating%.*} -le 2"
step "enable the socket" "systemctl enable --now netcliff-agent.socket && ! systemctl is-active netcliff-agent.service"
step "the first client starts the agent" "cp /etc/netcliff/agent.key /root/key; chmod 600 /root/key
    netcliff rr --to 127.0.0.1 --key /root/key --time 1s --json | grep -q transactions && systemctl is-active netcliff-agent.service"
step "its user and capabilities" 'pid=$(systemctl show -P MainPID netcliff-agent.service)
    test "$(stat -c %U /proc/$pid)" = netcliff
    # CAP_PERFMON (38) and CAP_BPF (39).
    grep -x "CapEff:.000000c000000000" /proc/$pid/status && grep -x "CapBnd:.000000c000000000" /proc/$pid/status'
step "seccomp, no new privileges" 'pid=$(systemctl show -P MainPID netcliff-agent.service)
    grep -x "Seccomp:.2" /proc/$pid/status && grep -x "NoNewPrivs:.1" /proc/$pid/status'
step "a transfer, measured by the agent's eBPF programs" 'pid=$(systemctl show -P MainPID netcliff-agent.service)
    # To a client on its own host the agent leaves the measuring: in a time namespace of its own it is on another.
    unshare --time --fork netcliff stream --to 127.0.0.1 --key /root/key --time 3s --json >/root/stream.json 2>/root/stream.log & transfer=$!
    until ls -l /proc/$pid/fd | grep bpf; do kill -0 $transfer; sleep 0.1; done
    wait $transfer; grep goodput /root/stream.json'
step "data paths under the list of system calls" "netcliff stream --to 127.0.0.1 --key /root/key --time 200ms --reverse --path write,sendfile,splice,zerocopy,uring --json | grep -q goodput"
step "a client without the key is refused" "netcliff agent --make-key /root/other; ! netcliff rr --to 127.0.0.1 --key /root/other --time 1s"
step "an upgrade restarts it" 'before=$(systemctl show -P MainPID netcliff-agent.service)
    dpkg -i /root/next.deb; sleep 1
    after=$(systemctl show -P MainPID netcliff-agent.service); test "$after" != 0; test "$after" != "$before"
    netcliff rr --to 127.0.0.1 --key /root/key --time 1s --json | grep -q transactions'
step "removing stops it" "dpkg -r netcliff && ! systemctl is-active netcliff-agent.service && ! systemctl is-active netcliff-agent.socket && ! ss -tln | grep 9940"
step "nothing in its journal is an error" '! journalctl --no-pager -q -p err -u netcliff-agent.service | grep .'
systemctl --no-block poweroff
STEPS
}

for suite in $suites; do
    root="$work/$suite"
    mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,iproute2,ca-certificates "$suite" "$root" \
        "$(mirror)"
    cp "$deb" "$root/root/now.deb"
    next_deb "$deb" "$version.1" "$root/root/next.deb"
    steps >"$root/root/steps.sh"
    cat >"$root/etc/systemd/system/steps.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=exec
ExecStart=/bin/sh /root/steps.sh
StandardOutput=file:/root/steps.log
StandardError=file:/root/steps.log
Environment=HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C
[Install]
WantedBy=multi-user.target
UNIT
    mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
    ln -s ../steps.service "$root/etc/systemd/system/multi-user.target.wants/"
    boot "$root"
    said="$root/root/steps.log"
    [[ -s "$said" ]] || echo "FAILED: systemd did not start the steps" >"$said"
    # shellcheck disable=SC2016 # expanded by dpkg-query
    systemd="$(chroot "$root" dpkg-query -W -f '${Version}' systemd | cut -d. -f1)"
    sed -E "s/^(passed|FAILED): /\1: $suite under systemd $systemd: /" "$said"
    grep -q "journal is an error" "$said" && ! grep -q ^FAILED "$said" || failed=1
    rm -rf --one-file-system "$root"
done
exit "$failed"
