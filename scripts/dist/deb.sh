#!/usr/bin/env bash
# deb.sh TREE VERSION ARCH OUT: a .deb (ARCH: amd64, arm64) of a staged tree, by dpkg-deb: what cargo-deb would do with the same lists,
# without six minutes of compiling a tool, and with the same bytes from the same tree.
set -euo pipefail
tree="$1" version="$2" arch="$3" out="$4"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cp -a "$tree" "$work/deb"
mkdir -p "$work/deb/DEBIAN"
cat >"$work/deb/DEBIAN/control" <<CONTROL
Package: netcliff
Version: $version
Architecture: $arch
Maintainer: The netcliff authors <netcliff@example.org>
Installed-Size: $(du -sk --apparent-size "$tree" | cut -f 1)
Section: net
Priority: optional
Homepage: https://example.org/netcliff
Description: find the load at which a packet host falls off its cliff
 Finds the offered load past which a host loses packets, with real packets
 through its kernel, explains it by the costs that it calibrates on the way,
 and predicts it by a model and a simulation for settings not yet tried.
 .
 The agent, the far end of tests between hosts, is installed and off:
 systemctl enable --now netcliff-agent.socket
CONTROL
install -m 755 packaging/postinstall.sh "$work/deb/DEBIAN/postinst"
install -m 755 packaging/preremove.sh "$work/deb/DEBIAN/prerm"
install -m 755 packaging/postremove.sh "$work/deb/DEBIAN/postrm"
(cd "$work/deb" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$work/deb" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$work/deb" "$out" >/dev/null
