#!/bin/sh
# After unpacking (postinst of the .deb, %post of the .rpm): the agent's user and key. The agent itself stays off:
# systemctl enable --now netcliff-agent.socket
set -e

key=/etc/netcliff/agent.key

if ! grep -q '^netcliff:' /etc/passwd; then
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers netcliff.conf
    elif command -v useradd >/dev/null; then
        useradd --system --user-group --no-create-home --home-dir /var/lib/netcliff --shell /usr/sbin/nologin netcliff
    elif command -v adduser >/dev/null; then
        adduser -S -D -H -h /var/lib/netcliff -s /sbin/nologin netcliff
    else
        echo "netcliff: no user was made: systemd-sysusers, useradd and adduser are missing; the agent needs one to run as" >&2
    fi
fi

if [ ! -e "$key" ]; then
    mkdir -p "${key%/*}"
    chmod 0755 "${key%/*}"
    # Mode 0600 from the first moment on, and complete before it has its name.
    rm -f "$key.new"
    netcliff agent --make-key "$key.new" 2>/dev/null
    # The agent refuses a key that is not its own user's.
    chown netcliff: "$key.new" 2>/dev/null || true
    chmod 0400 "$key.new"
    mv "$key.new" "$key"
fi

if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    # After an upgrade the running agent is the old one.
    systemctl try-restart netcliff-agent.service || true
fi
