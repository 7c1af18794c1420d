#!/bin/busybox sh
# The first program of the guest: mounts file systems, loads the modules, runs the checks, powers off.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
while read -r name; do insmod "/lib/modules/$name.ko" || echo "module $name was not loaded"; done </lib/modules/order
mount -t 9p -o trans=virtio,version=9p2000.L out /out || echo "no directory of the host"
driver=$(cat /etc/driver)
sysctl -q -w kernel.panic_on_oops=1
ip link set lo up
export DRIVER="$driver"
echo "guest is up: $(uname -r), $driver"
sh /checks.sh "$(cat /etc/checks)"
echo "checks have ended"
touch /out/ended
sync
poweroff -f
