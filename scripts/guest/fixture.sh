#!/bin/bash
# Makes a fixture of crates/host/tests/inspect from a capture (`netcliff inspect --capture DIR`): one file that contains
# all files of the capture completely, including the kernel's answers (netlink.json). The test
# `fixtures_of_drivers_hold_what_is_read` fails if a file is missing or never read.
#
#   scripts/guest/fixture.sh CAPTURE NAME DESCRIPTION
#   scripts/guest/fixture.sh /tmp/netcliff-guest.X/e1000e/capture e1000e "two NICs of QEMU 10.0, Linux 6.18"
set -eu
fixtures=$(cd "$(dirname "$0")/../../crates/host/tests/fixtures" && pwd)
[ -r "$1/netlink.json" ] || { echo "$1 is no capture" >&2; exit 1; }
{
    echo "# $3: netcliff inspect --capture, whole."
    cd "$1"
    find . -type f | LC_ALL=C sort | while read -r file; do
        echo "== ${file#./}"
        # Add a line feed at the end of a file that has none.
        sed -e '$a\' "$file"
    done
} >"$fixtures/$2.tree"
