#!/usr/bin/env bash
# units.sh: checks that the hardening of the agent's unit gives an exposure of at most 3 (systemd-analyze security), and
# that systemd understands every line of it. SKIPPED if systemd-analyze is missing or too old to read a file (before
# 250); a failure in that case if NETCLIFF_REQUIRE contains `programs` or `all`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib/skip.sh
source scripts/lib/skip.sh
most=3.0

if ! systemd-analyze security --help 2>/dev/null | grep -q -e --offline; then
    skip_part scripts/checks/units.sh programs "systemd-analyze 250 or newer is not installed (Debian package systemd)"
    exit
fi
rating="$(LC_ALL=C systemd-analyze security --no-pager --offline=true packaging/netcliff-agent.service |
    sed -n 's/.*Overall exposure level for .*: \([0-9.]*\) .*/\1/p')"
echo "netcliff-agent.service: exposure $rating, at most $most"
awk -v found="$rating" -v most="$most" 'BEGIN { exit !(found != "" && found + 0 <= most + 0) }'
# The program and its man page are not installed here, so their lines are replaced. Any remaining message is an error in
# the text of the unit.
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
sed 's,^ExecStart=[^ ]*,ExecStart=/bin/true,; /^Documentation=/d' packaging/netcliff-agent.service >"$work/netcliff-agent.service"
sed '/^Documentation=/d' packaging/netcliff-agent.socket >"$work/netcliff-agent.socket"
said="$(systemd-analyze verify "$work/netcliff-agent.service" "$work/netcliff-agent.socket" 2>&1 | grep netcliff || true)"
[[ -z "$said" ]] || {
    echo "$said"
    exit 1
}
