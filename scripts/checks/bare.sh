#!/usr/bin/env bash
# bare.sh [--keep DIR] [--suite NAME]: shows that the two commands of the README work on a machine on which nothing is
# installed. Makes a bare Debian root (minbase, git, make, ca-certificates) and enters it in new mount, UTS, IPC and PID
# namespaces. Clones HEAD of this tree there, and runs `make run` and `make test` with an empty HOME. Prints what setup
# installed and how long both commands took. Exit code 1: one of them failed.
#   --keep DIR    make the root in DIR and leave it there; if DIR already contains one, use it (setup then finds more)
#   --suite NAME  Debian suite, default stable
# Needs root and mmdebstrap or debootstrap. The root uses the network of this machine: apt's mirror, certificates,
# proxies, and the settings of pip and cargo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib/debian.sh
source scripts/lib/debian.sh

say() { echo "bare: $*"; }
fail() {
    echo "bare: $*" >&2
    exit 1
}

root=""
keep=false
suite=stable
while (($#)); do
    case "$1" in
    --keep) root="${2:?--keep DIR}" keep=true && shift 2 ;;
    --suite) suite="${2:?--suite NAME}" && shift 2 ;;
    *) fail "'$1' is not an option; use: bare.sh [--keep DIR] [--suite NAME]" ;;
    esac
done

[[ "$(id -u)" == 0 ]] || fail "a root directory of another system needs root; run: sudo scripts/checks/bare.sh"
unshare --mount --uts --ipc --pid --fork true 2>/dev/null ||
    fail "this kernel or container forbids new mount, UTS, IPC and PID namespaces (unshare: $(unshare --mount --uts --ipc --pid --fork true 2>&1 || true))"

make_root() {
    say "making a bare Debian $suite from $(mirror) in $root"
    if command -v mmdebstrap >/dev/null; then
        mmdebstrap --quiet --variant=minbase --include=git,make,ca-certificates "$suite" "$root" "$(mirror)"
    elif command -v debootstrap >/dev/null; then
        debootstrap --variant=minbase --include=git,make,ca-certificates "$suite" "$root" "$(mirror)"
    else
        fail "mmdebstrap or debootstrap is missing; install one first: apt-get install mmdebstrap"
    fi
}

# Copies certificates, name resolution and the settings of package clients from this machine.
pass_through() {
    local file
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
        cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
        chroot "$root" update-ca-certificates >/dev/null 2>&1
    fi
    for file in /etc/pip.conf /etc/apt/apt.conf.d/*proxy*; do
        [[ ! -f "$file" ]] || cp "$file" "$root$file"
    done
    mkdir -p "$root/bare/home/.cargo"
    for file in config config.toml; do
        [[ ! -f "${CARGO_HOME:-$HOME/.cargo}/$file" ]] || cp "${CARGO_HOME:-$HOME/.cargo}/$file" "$root/bare/home/.cargo/"
    done
    rmdir --ignore-fail-on-non-empty "$root/bare/home/.cargo"
}

# Prints the registry and proxy variables of this shell as words for env(1).
passed_variables() {
    env | grep -E '^(https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|PIP_(INDEX_URL|EXTRA_INDEX_URL|CERT|DEFAULT_TIMEOUT|TRUSTED_HOST)|CARGO_(HTTP|NET|REGISTRIES|REGISTRY|SOURCE)_[A-Z_0-9]+|RUSTUP_(DIST_SERVER|UPDATE_ROOT))=' || true
}

# inside COMMAND: runs a shell line in the root, in new namespaces, without other settings of this machine.
inside() {
    local -a passed
    mapfile -t passed < <(passed_variables)
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --uts --ipc --pid --fork --kill-child --propagation private bash -ec '
        root="$1"; shift
        hostname bare
        # The root must be a mount point, or no program in it can change how mounts propagate (`ip netns` does).
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/run"
        exec chroot "$root" "$@"' _ "$root" env -i "${passed[@]}" \
        HOME=/bare/home PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        CI="${CI:-}" NETCLIFF_REQUIRE="${NETCLIFF_REQUIRE:-}" bash -c "$1" </dev/null
}

# shellcheck disable=SC2016 # a field of dpkg-query
packages() { chroot "$root" dpkg-query -W -f '${Package}\n' | sort; }

# measured NAME: runs the command NAME in the clone, adds its output to the log, and records its time.
results=()
failed=0
measured() {
    local name="$1" status=0 start_s="$SECONDS"
    say "running $name"
    inside "cd /bare/netcliff && $name" 2>&1 | tee -a "$log" || status=$?
    results+=("$name: $([[ "$status" == 0 ]] && echo passed || echo "FAILED (exit $status)"), $((SECONDS - start_s)) s")
    [[ "$status" == 0 ]] || failed=1
}

if ! $keep; then
    root="$(mktemp -d /var/tmp/netcliff-bare.XXXXXX)"
    trap 'rm -rf --one-file-system "$root"' EXIT
fi
[[ -x "$root/usr/bin/git" ]] || make_root
pass_through
log="$(mktemp /var/tmp/netcliff-bare-log.XXXXXX)"
before="$(packages)"
rm -rf "$root/bare/netcliff" "$root/bare/head.bundle"
mkdir -p "$root/bare/home"
git bundle create --quiet "$root/bare/head.bundle" HEAD
inside "git -c advice.detachedHead=false clone --quiet /bare/head.bundle /bare/netcliff"
say "clone of $(git rev-parse --short HEAD), Debian $(cat "$root/etc/debian_version"), $(nproc) CPUs, Linux $(uname -r)"

measured "make run"
measured "make test"

say "packages that setup installed: $(comm -13 <(echo "$before") <(packages) | xargs)"
say "setup said:"
grep -h '^setup: ' "$log" | sed 's/^/  /' || true
printf 'bare: %s\n' "${results[@]}"
say "log: $log"
exit "$failed"
