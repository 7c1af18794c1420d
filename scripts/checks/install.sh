#!/usr/bin/env bash
# install.sh [--suites "bullseye bookworm trixie"] [--keep DIR]: tests the output of `make dist` in dist/ for this
# processor in bare roots: the .deb in Debian 11, 12 and 13 (install, run, upgrade, remove, purge), the .rpm in a root
# where only rpm is used, the tar in a root with busybox and musl (the base of Alpine), and the unpacked OCI image.
# Prints one line per step. Exit code 1: a step failed. Needs root, mmdebstrap and this machine's Debian mirror.
# Alpine's packages are not used.
# shellcheck disable=SC2016 # commands are expanded in the roots
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/dist/lib.sh
source scripts/dist/lib.sh
# shellcheck source=scripts/lib/debian.sh
source scripts/lib/debian.sh

suites="bullseye bookworm trixie" keep="" failed=0
while (($#)); do
    case "$1" in
    --suites) suites="${2:?--suites NAMES}" && shift 2 ;;
    --keep) keep="${2:?--keep DIR}" && shift 2 ;;
    *) echo "install: '$1' is not an option; use: install.sh [--suites NAMES] [--keep DIR]" >&2 && exit 2 ;;
    esac
done
[[ "$(id -u)" == 0 ]] || {
    echo "install: roots of other systems need root: sudo scripts/checks/install.sh" >&2
    exit 2
}
command -v mmdebstrap >/dev/null || {
    echo "install: mmdebstrap is missing; install it first: apt-get install mmdebstrap" >&2
    exit 2
}

version="$(workspace_version)"
machine="$(uname -m)"
debian="$(debian_arch "$machine")"
deb="dist/netcliff_${version}_$debian.deb"
[[ -f "$deb" ]] || {
    echo "install: $deb is missing; make it first: make dist" >&2
    exit 2
}
work="$(mktemp -d /var/tmp/netcliff-install.XXXXXX)"
[[ -z "$keep" ]] || work="$keep"
mkdir -p "$work"
[[ -n "$keep" ]] || trap 'rm -rf --one-file-system "$work"' EXIT

# inside ROOT COMMAND: runs a shell line in new namespaces. /sys is empty unless WITH_SYS is set, so that programs see a
# kernel without BTF.
inside() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --uts --ipc --pid --net --fork --kill-child --propagation private bash -ec '
        root="$1"; shift
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        [ -z "$WITH_SYS" ] || mount --rbind /sys "$root/sys"
        ip link set lo up
        exec chroot "$root" "$@"' _ "$1" env -i WITH_SYS= HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        DEBIAN_FRONTEND=noninteractive LC_ALL=C sh -ec "$2" </dev/null
}
export WITH_SYS=""

# try ROOT NAME COMMAND: runs a step and prints whether it passed.
try() {
    local status=0 said
    said="$(inside "$1" "$3" 2>&1)" || status=$?
    if [[ "$status" == 0 ]]; then
        printf 'passed: %s: %s\n' "${1##*/}" "$2"
    else
        printf 'FAILED: %s: %s (exit %d)\n%s\n' "${1##*/}" "$2" "$status" "$(tail -n 15 <<<"$said")"
        failed=1
    fi
}

# Commands that must work in every root. Their traffic uses loopback of a new network namespace.
runs='netcliff --version | grep -qx "netcliff '"$version"'"
    netcliff predict --rate 10kpps --json | grep -q throughput_pps
    netcliff inspect >/dev/null
    netcliff simulate --rate 100kpps --packets 10000 --json | grep -q latency_s
    netcliff rr --time 1s --json | grep -q transactions
    netcliff stream --time 1s --json | grep -q goodput'

# If the kernel has BTF, CPU time is exact, because the program contains libbpf, libelf and zlib.
exact="netcliff stream --time 1s --json | grep -q 'eBPF at the kernel'"

try_deb() {
    local suite="$1" root="$work/$1"
    [[ -x "$root/usr/bin/dpkg" ]] || mmdebstrap --quiet --variant=minbase --include=ca-certificates "$suite" "$root" "$(mirror)" || {
        echo "FAILED: $suite: its root cannot be made from $(mirror)"
        failed=1
        return
    }
    cp "$deb" "$root/tmp/now.deb"
    next_deb "$deb" "$version.1" "$root/tmp/next.deb"
    try "$root" "install" 'dpkg -i /tmp/now.deb && grep -q ^netcliff: /etc/passwd'
    try "$root" "the key is the agent's own" 'test "$(stat -c "%U %G %a" /etc/netcliff/agent.key)" = "netcliff netcliff 400"'
    try "$root" "the agent is off" '! find /etc/systemd -name "netcliff*" | grep -q .'
    try "$root" "files are whole" 'dpkg --verify netcliff'
    try "$root" "runs, without /sys" "$runs"
    WITH_SYS=1 try "$root" "eBPF, with /sys" "$exact"
    try "$root" "the agent serves its own user with its key" '
        cp /etc/netcliff/agent.key /root/key; chown root: /root/key; chmod 600 /root/key
        setpriv --reuid netcliff --regid netcliff --clear-groups env NETCLIFF_STATE_DIR=/tmp/state \
            netcliff agent --key /etc/netcliff/agent.key >/tmp/agent.log 2>&1 &
        sleep 1
        netcliff rr --to 127.0.0.1 --key /root/key --time 1s --json | grep -q transactions
        kill $!'
    try "$root" "upgrade keeps the key" '
        sha256sum /etc/netcliff/agent.key >/tmp/sum; dpkg -i /tmp/next.deb; sha256sum -c /tmp/sum
        dpkg-query -W netcliff | grep -q "'"$version"'.1"'
    try "$root" "remove keeps the key" 'dpkg -r netcliff && ! test -e /usr/bin/netcliff && test -e /etc/netcliff/agent.key'
    try "$root" "purge leaves nothing" 'dpkg -P netcliff && ! find / -xdev -path /proc -prune -o -path /tmp -prune -o -path /run -prune -o -name "*netcliff*" -print | grep .'
}

# The root is Debian with rpm, since no distribution that uses rpm can be reached here. Only rpm is used in it.
try_rpm() {
    local root="$work/rpm" rpm="dist/netcliff-$version-1.$machine.rpm"
    [[ -x "$root/usr/bin/rpm" ]] || mmdebstrap --quiet --variant=minbase --include=rpm bookworm "$root" "$(mirror)"
    cp "$rpm" "$root/tmp/now.rpm"
    try "$root" "install" 'rpm --initdb && rpm -i --nodeps --force-debian /tmp/now.rpm && rpm -V --nodeps netcliff'
    try "$root" "the key is the agent's own" 'test "$(stat -c "%U %a" /etc/netcliff/agent.key)" = "netcliff 400"'
    try "$root" "runs" "$runs"
    try "$root" "reinstall keeps the key" 'sha256sum /etc/netcliff/agent.key >/tmp/sum
        rpm -U --nodeps --force --force-debian /tmp/now.rpm && sha256sum -c /tmp/sum && test -x /usr/bin/netcliff'
    try "$root" "remove" 'rpm -e --nodeps netcliff && ! test -e /usr/bin/netcliff'
}

# The base of Alpine: musl and busybox, neither glibc nor bash.
try_tar() {
    local root="$work/busybox"
    rm -rf "$root"
    mkdir -p "$root"/{bin,lib,proc,sys,dev,tmp,root,etc,usr/bin}
    local of="$work/busybox-packages"
    mkdir -p "$of"
    (cd "$of" && apt-get download -qq busybox-static musl && for package in *.deb; do dpkg-deb -x "$package" "$root"; done)
    find "$root" -name '*linux-gnu*' -prune -exec rm -rf {} +
    rm -rf "${root:?}/usr/share"
    chroot "$root" /bin/busybox --install -s /bin
    tar --extract --file "dist/netcliff-$version-$machine-linux.tar.gz" --strip-components=1 --directory "$root/usr"
    try "$root" "runs with busybox and musl alone" "$runs"
    WITH_SYS=1 try "$root" "eBPF, with /sys" "$exact"
    try "$root" "the agent makes its key and serves" '
        netcliff agent --make-key /root/key; (netcliff agent --key /root/key >/tmp/agent.log 2>&1 &)
        sleep 1; netcliff rr --to 127.0.0.1 --key /root/key --time 1s --json | grep -q transactions'
}

try_oci() {
    local root="$work/oci"
    rm -rf "$root"
    mkdir -p "$root"
    python3 - "dist/netcliff-$version.oci.tar" "$debian" "$root" <<'PYTHON'
import gzip, io, json, sys, tarfile
image, arch, root = sys.argv[1:]
archive = tarfile.open(image)
read = lambda digest: archive.extractfile("blobs/sha256/" + digest.split(":")[1]).read()
index = json.load(archive.extractfile("index.json"))
every = json.loads(read(index["manifests"][0]["digest"]))
(mine,) = [m for m in every["manifests"] if m["platform"]["architecture"] == arch]
for layer in json.loads(read(mine["digest"]))["layers"]:
    tarfile.open(fileobj=io.BytesIO(gzip.decompress(read(layer["digest"])))).extractall(root)
PYTHON
    if [[ "$(chroot "$root" /usr/bin/netcliff --version)" == "netcliff $version" ]]; then
        echo "passed: oci: the image's root runs"
    else
        echo "FAILED: oci: the image's root does not run" && failed=1
    fi
}

for suite in $suites; do try_deb "$suite"; done
try_rpm
try_tar
try_oci
exit "$failed"
