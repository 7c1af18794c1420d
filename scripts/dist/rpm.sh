#!/usr/bin/env bash
# rpm.sh TREE VERSION ARCH OUT: an .rpm (ARCH: x86_64, aarch64) of a staged tree, by rpmbuild; see deb.sh. A version with a suffix
# (0.1.0~rc1) is one in both.
set -euo pipefail
tree="$1" version="$2" arch="$3" out="$4"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
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
Finds the offered load past which a host loses packets, with real packets
through its kernel, explains it by the costs that it calibrates on the way,
and predicts it by a model and a simulation for settings not yet tried.

The agent, the far end of tests between hosts, is installed and off:
systemctl enable --now netcliff-agent.socket
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
install -m 644 "$work/out.rpm" "$out"
