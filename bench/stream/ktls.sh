#!/usr/bin/env bash
# ktls.sh NETCLIFF: runs `stream --path ktls` in a QEMU guest with Debian's kernel, which supports TLS. Needs
# linux-image-amd64, qemu-system-x86, busybox-static and cpio.
set -euo pipefail
kernel=$(find /boot -name 'vmlinuz-*' | sort -V | tail -1)
modules=/lib/modules/${kernel#/boot/vmlinuz-}/kernel
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,proc,sys,dev,tmp,root,lib64,mods,lib/x86_64-linux-gnu}
cp "$(command -v busybox)" "$root/bin/busybox"
strip -o "$root/bin/netcliff" "$1"
ldd "$1" | grep -o '/lib[^ ]*' | while read -r library; do cp -L "$library" "$root$(dirname "$library")/"; done
for module in tls gcm ghash-generic gf128mul ctr seqiv cryptd crypto_simd aesni-intel; do
    find "$modules" -name "$module.ko*" -exec cp {} "$root/mods/" \;
done
cat >"$root/init" <<'EOF'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
export HOME=/root PATH=/bin
ip link set lo up
for again in 1 2 3; do for module in /mods/*; do insmod "$module" 2>/dev/null; done; done
netcliff stream --path ktls,write --block 64KiB --time 1 --repeats 2 --cpu-meter procfs 2>&1
cat /proc/net/tls_stat
poweroff -f
EOF
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$root.gz"
timeout 200 qemu-system-x86_64 -M q35 -cpu max -m 1024 -smp 2 -nographic -no-reboot -nic none -kernel "$kernel" -initrd "$root.gz" \
    -append "console=ttyS0 quiet panic=-1" </dev/null | tr -d '\r' | sed -n '/^netcliff:/,$p'
rm -f "$root.gz"
