#!/bin/sh
# After removing. The key stays, as configuration does, until the .deb is purged. The user stays: files may be left that are its.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
if [ "${1:-}" = purge ]; then
    rm -f /etc/netcliff/agent.key
    rmdir --ignore-fail-on-non-empty /etc/netcliff 2>/dev/null || true
    rm -rf /var/lib/netcliff
fi
