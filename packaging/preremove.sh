#!/bin/sh
# Before removing (prerm of the .deb: $1 = remove; %preun of the .rpm: $1 = 0), not before an upgrade.
set -e
case "${1:-}" in
remove | 0)
    if [ -d /run/systemd/system ]; then
        systemctl disable --now netcliff-agent.socket netcliff-agent.service || true
    fi
    ;;
esac
