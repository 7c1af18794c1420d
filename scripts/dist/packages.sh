#!/usr/bin/env bash
# packages.sh TREE VERSION ARCH DEBIAN_ARCH DEB RPM: makes the .deb and the .rpm of a staged tree (ARCH: x86_64,
# aarch64; DEBIAN_ARCH: amd64, arm64), with dpkg-deb and rpmbuild. cargo-deb and cargo-generate-rpm would do the same
# from the same lists, but to compile them takes six minutes. The same tree gives identical packages. A version with a
# suffix (0.1.0~rc1) is valid in both formats.
set -euo pipefail
tree="$1" version="$2" arch="$3" debian="$4" deb="$5" rpm="$6"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
description='Finds the offered load past which a host loses packets, with real packets
through its kernel, explains it by the costs that it calibrates on the way,
and predicts it by a model and a simulation for settings not yet tried.

The agent, the far end of tests between hosts, is installed and off:
systemctl enable --now netcliff-agent.socket'

cp -a "$tree" "$work/deb"
mkdir -p "$work/deb/DEBIAN"
cat >"$work/deb/DEBIAN/control" <<CONTROL
Package: netcliff
Version: $version
Architecture: $debian
Maintainer: The netcliff authors <netcliff@example.org>
Installed-Size: $(du -sk --apparent-size "$tree" | cut -f 1)
Section: net
Priority: optional
Homepage: https://example.org/netcliff
Description: find the load at which a packet host falls off its cliff
$(sed 's/^$/./; s/^/ /' <<<"$description")
CONTROL
install -m 755 packaging/postinstall.sh "$work/deb/DEBIAN/postinst"
install -m 755 packaging/preremove.sh "$work/deb/DEBIAN/prerm"
install -m 755 packaging/postremove.sh "$work/deb/DEBIAN/postrm"
(cd "$work/deb" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$work/deb" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$work/deb" "$deb" >/dev/null

cat >"$work/netcliff.spec" <<SPEC
Name: netcliff
Version: $version
Release: 1
Summary: Find the load at which a packet host falls off its cliff
License: (MIT OR Apache-2.0) AND GPL-2.0-only
URL: https://example.org/netcliff
AutoReqProv: no
Requires: /bin/sh
%description
$description
%install
cp -a "$tree/." %{buildroot}/
%files
$(cd "$tree" && find . -type f | LC_ALL=C sort | sed 's/^\.//')
%post
$(tail -n +2 packaging/postinstall.sh)
%preun
$(tail -n +2 packaging/preremove.sh)
%postun
$(tail -n +2 packaging/postremove.sh)
SPEC
rpmbuild --quiet -bb --target "$arch-linux" \
    --define "_topdir $work" --define "_rpmdir $work" --define "_build_name_fmt out.rpm" --define "_buildhost netcliff" \
    --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
    --define "source_date_epoch_from_changelog 0" --define "_binary_payload w9.gzdio" --define "_dbpath $work/db" \
    --define "debug_package %{nil}" --define "__os_install_post %{nil}" --define "_build_id_links none" "$work/netcliff.spec"
install -m 644 "$work/out.rpm" "$rpm"
