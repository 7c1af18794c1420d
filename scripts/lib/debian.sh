# shellcheck shell=bash
# Functions for the scripts that make Debian packages or test them in bare roots.

# Prints the mirror for bare roots: MIRROR from the environment, otherwise the first Debian mirror in apt's sources,
# otherwise Debian's own.
mirror() {
    local found="${MIRROR:-}"
    [[ -n "$found" ]] || found="$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        grep -v '^ *#' | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ')"
    echo "${found:-http://deb.debian.org/debian}"
}

# debian_arch MACHINE: prints Debian's name of a processor.
debian_arch() {
    case "$1" in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *)
        echo "processor '$1': expected x86_64 or aarch64" >&2
        return 1
        ;;
    esac
}

# next_deb DEB VERSION OUT: copies the package DEB with another version, to test an upgrade.
next_deb() {
    local work
    work="$(mktemp -d)"
    dpkg-deb -R "$1" "$work/next"
    sed -i "s/^Version: .*/Version: $2/" "$work/next/DEBIAN/control"
    dpkg-deb --root-owner-group -Zgzip -z1 --build "$work/next" "$3" >/dev/null
    rm -rf "$work"
}
