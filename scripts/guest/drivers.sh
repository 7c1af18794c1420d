#!/bin/bash
# Checks netcliff with real NIC drivers. For each driver, QEMU boots a guest with two such NICs on one wire, and
# scripts/guest/checks.sh runs in it. Needs no privileges and changes nothing on this host. Timings in a guest without
# KVM have no meaning. The wire is a hub of QEMU. virtio_net has no more queues than its wire, so it gets taps on a
# bridge instead, in a new user and network namespace of QEMU.
#
#   scripts/guest/drivers.sh [DRIVER[=CHECK,...] ...]      drivers: e1000 e1000e igb virtio_net vmxnet3 8139cp
#
# Environment:
#   QEMU      qemu-system-x86_64; igb needs version 8.0
#   KERNEL    a bzImage                         [the newest /boot/vmlinuz-*]
#   MODULES   its directory of modules          [/lib/modules/VERSION of KERNEL]
#   BUSYBOX   a static busybox                  [busybox]
#   NETCLIFF  the program to check              [target/release/netcliff]
#   OUT       directory of the results          [a new directory under /tmp]
#   PATIENCE  longest time for one driver (s)   [600]
#   DEVICE    further properties of both NICs, such as iommu_platform=on, which gives virtio_net zero-copy
# If one of these is missing, the script names it, and the drivers are SKIPPED. Exit code 1: a check failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
QEMU=${QEMU:-qemu-system-x86_64}
KERNEL=${KERNEL:-$(ls -v /boot/vmlinuz-* 2>/dev/null | tail -1)}
MODULES=${MODULES:-/lib/modules/$(basename "${KERNEL:-none}" | sed 's/^vmlinuz-//')}
BUSYBOX=${BUSYBOX:-busybox}
NETCLIFF=${NETCLIFF:-$here/../../target/release/netcliff}
OUT=${OUT:-$(mktemp -d /tmp/netcliff-guest.XXXXXX)}
PATIENCE=${PATIENCE:-600}
DEVICE=${DEVICE:-}

skip() {
    echo "SKIPPED: $*"
    exit 0
}
command -v "$QEMU" >/dev/null || skip "no $QEMU: install qemu-system-x86, or name it with QEMU="
[ -r "$KERNEL" ] || skip "no kernel that can be read: name one with KERNEL="
[ -d "$MODULES/kernel" ] || skip "no modules in $MODULES: name their directory with MODULES="
BUSYBOX=$(command -v "$BUSYBOX") || skip "no busybox: install busybox-static, or name it with BUSYBOX="
[ -x "$NETCLIFF" ] || skip "no $NETCLIFF: cargo build --release, or name it with NETCLIFF="
for tool in ip ldd; do command -v "$tool" >/dev/null || skip "no $tool"; done
mkdir -p "$OUT" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# put PROGRAM: copies a program and its libraries into the guest.
put() {
    local file
    mkdir -p "$work/root/bin"
    cp -L "$1" "$work/root/bin/"
    for file in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
        mkdir -p "$work/root$(dirname "$file")"
        cp -Ln "$file" "$work/root$file" 2>/dev/null
    done
}

# module NAME: copies a module and those that it needs, unpacked.
module() {
    local name=${1//-/_} file target needed
    target=$work/root/lib/modules/$name.ko
    [ -e "$target" ] && return
    file=$(find "$MODULES/kernel" -name "$name.ko*" -o -name "${name//_/-}.ko*" | head -1)
    [ -n "$file" ] || return # built in, or not there
    case $file in
    *.xz) xz -dc "$file" ;;
    *.zst) zstd -dqc "$file" ;;
    *.gz) gzip -dc "$file" ;;
    *) cat "$file" ;;
    esac >"$target"
    for needed in $(tr '\0' '\n' <"$target" | sed -n 's/^depends=//p' | tr ',' ' '); do module "$needed"; done
    # The order in which the modules must be loaded.
    echo "$name" >>"$work/root/lib/modules/order"
}

# The files that are the same for all drivers.
base() {
    mkdir -p "$work/root"/{bin,lib/modules,proc,sys,dev,run,tmp,out,etc,var,root}
    put "$BUSYBOX"
    [ "$(basename "$BUSYBOX")" = busybox ] || mv "$work/root/bin/$(basename "$BUSYBOX")" "$work/root/bin/busybox"
    put "$(command -v ip)"
    command -v ethtool >/dev/null && put "$(command -v ethtool)"
    put "$NETCLIFF"
    strip "$work/root/bin/$(basename "$NETCLIFF")" 2>/dev/null
    mv "$work/root/bin/$(basename "$NETCLIFF")" "$work/root/bin/netcliff" 2>/dev/null
    cp "$here/init.sh" "$work/root/init"
    cp "$here"/{checks,tuning,ports,hosts}.sh "$work/root/"
    chmod +x "$work/root/init"
    for name in virtio_pci 9p 9pnet_virtio tcp_diag veth sch_fq sch_tbf sch_htb tcp_cubic tcp_bbr; do module "$name"; done
}

# device DRIVER: the QEMU device for which a driver is made.
device() {
    case $1 in
    virtio_net) echo virtio-net-pci ;;
    8139cp) echo rtl8139 ;;
    *) echo "$1" ;;
    esac
}

# A script that makes two taps (wire0 and wire1) with four queues on a new bridge, and then becomes QEMU.
read -r -d '' TAPS <<'END'
ip link add wire type bridge mcast_snooping 0 && ip link set wire up || exit 1
for tap in wire0 wire1; do
    ip tuntap add dev $tap mode tap multi_queue && ip link set $tap master wire up || exit 1
done
exec "$@"
END
has_taps() {
    unshare -Urn sh -c "$TAPS" sh true 2>/dev/null && [ -w /dev/net/tun ]
}

# try DRIVER CHECKS: boots the guest, waits for its end, and prints the results.
try() {
    local driver=$1 checks=$2 out=$OUT/$1 model slot wire options nics=() taps=() n
    mkdir -p "$out"
    rm -f "$out"/*
    model=$(device "$driver")
    "$QEMU" -device help 2>&1 | grep -q "\"$model\"" || {
        echo "$driver: SKIPPED: this QEMU has no $model"
        return
    }
    module "$driver"
    echo "$driver" >"$work/root/etc/driver"
    echo "$checks" >"$work/root/etc/checks"
    (cd "$work/root" && find . | "$BUSYBOX" cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initrd"
    [ "$driver" = virtio_net ] && if has_taps; then
        taps=(unshare -Urn sh -c "$TAPS" sh)
    else
        echo "$driver: SKIPPED several queues: no user namespace with taps can be had here"
    fi
    # Two NICs on one wire. Each has a PCI Express slot (generation 1, one lane); the old ones are behind a PCI bridge.
    case $model in
    e1000 | rtl8139) nics=(-device "pcie-pci-bridge,id=bridge") ;;
    *) for n in 0 1; do
        nics+=(-device "pcie-root-port,id=slot$n,chassis=$((n + 1)),x-speed=2_5,x-width=1")
    done ;;
    esac
    for n in 0 1; do
        case $model in
        e1000 | rtl8139) slot="bridge,addr=$((n + 1))" ;;
        *) slot="slot$n" ;;
        esac
        wire="hubport,id=wire$n,hubid=0" options=
        if [ ${#taps[@]} -gt 0 ]; then
            wire="tap,id=wire$n,ifname=wire$n,script=no,downscript=no,queues=4"
            options=,mq=on,vectors=10,rss=on,hash=on
        fi
        nics+=(-netdev "$wire"
            -device "$model,id=nic$n,netdev=wire$n,mac=02:00:00:00:00:0$((n + 1)),bus=$slot$options${DEVICE:+,$DEVICE}")
    done
    mkfifo "$work/monitor.in" "$work/monitor.out" 2>/dev/null
    cat "$work/monitor.out" >"$out/monitor.log" &
    local reader=$!
    timeout "$PATIENCE" "${taps[@]}" "$QEMU" -M q35 -cpu max -smp 4 -m 1500 -nographic -nodefaults -no-reboot -serial "file:$out/console.log" \
        -chardev "pipe,id=monitor,path=$work/monitor" -mon chardev=monitor \
        -kernel "$KERNEL" -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1 no_timer_check net.ifnames=0" \
        -virtfs "local,path=$out,mount_tag=out,security_model=none" "${nics[@]}" 2>"$out/qemu.log" &
    local qemu=$!
    exec 7<>"$work/monitor.in"
    # The guest cannot unplug its cable. It writes a command for QEMU's monitor to a file, which this loop forwards.
    while kill -0 "$qemu" 2>/dev/null; do
        if [ -s "$out/monitor" ]; then
            cat "$out/monitor" >&7
            rm -f "$out/monitor"
        fi
        sleep 0.2
    done
    exec 7>&-
    kill "$reader" 2>/dev/null
    wait "$reader" 2>/dev/null
    [ -e "$out/ended" ] || echo "FAILED the guest ended before its checks did (see $out/console.log)" >>"$out/results"
    sed "s/^/$driver: /" "$out/results"
}

base
[ $# -gt 0 ] || set -- e1000e igb virtio_net vmxnet3 e1000 8139cp
for wanted in "$@"; do
    case $wanted in
    *=*) try "${wanted%%=*}" "${wanted#*=}" ;;
    *) try "$wanted" all ;;
    esac
done
echo "what was said: $OUT"
! grep -q '^FAILED' "$OUT"/*/results
