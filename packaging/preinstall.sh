#!/bin/sh
# The user must exist before the files that belong to its group are unpacked.
set -e
if ! grep -q '^caddy:' /etc/group; then
	if command -v groupadd >/dev/null; then groupadd --system caddy; else addgroup -S caddy; fi
fi
if ! grep -q '^caddy:' /etc/passwd; then
	if command -v useradd >/dev/null; then
		useradd --system --gid caddy --home-dir /var/lib/gatehouse --no-create-home --shell /usr/sbin/nologin caddy
	else
		adduser -S -D -H -h /var/lib/gatehouse -s /sbin/nologin -G caddy caddy
	fi
fi
