#!/bin/sh
# A first installation starts nothing: the Caddyfile comes first. An upgrade restarts what runs.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart caddy.service
fi
