#!/usr/bin/env bash
# Serves Caddyfile.example and, once it is ready, prints what to look at. Ctrl-C ends it.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${GATEHOUSE_BIN:-$PWD/bin/gatehouse}
[ -x "$bin" ] || { echo "$bin is missing: run make build" >&2; exit 1; }
mkdir -p data

"$bin" run --config Caddyfile.example --adapter caddyfile 2>data/run.log &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server 2>/dev/null || true' EXIT
trap 'exit 0' INT TERM

ready() { # whether the issuer answers 200 at /healthz
	exec 3<>/dev/tcp/127.0.0.1/8420 || return 1
	printf 'GET /healthz HTTP/1.0\r\nHost: localhost:8420\r\n\r\n' >&3
	local line
	read -r line <&3 || return 1
	exec 3>&-
	[[ $line == *' 200 '* ]]
}
for _ in $(seq 100); do
	kill -0 "$server" 2>/dev/null || break
	if ready 2>/dev/null; then up=1 && break; fi
	sleep 0.1
done
if [ -z "${up:-}" ]; then
	echo "Gatehouse did not start. The end of data/run.log:" >&2
	tail -n 5 data/run.log >&2
	exit 1
fi

cat <<'TEXT'

  Gatehouse is up.

  A protected page    http://localhost:8421/
    sign in as        demo@example.com
    with              open-the-gate

  A protected API     a token for a program, and the call that it opens:
    TOKEN=$(curl -s -u reports:an-example-secret-do-not-use-it-elsewhere -d grant_type=client_credentials http://localhost:8420/oauth/token | sed 's/.*"access_token":"\([^"]*\)".*/\1/')
    curl -s -H "Authorization: Bearer $TOKEN" http://localhost:8422/orders

  The data lies in    ./data (remove it to start afresh); the log is data/run.log
  The configuration   Caddyfile.example

  Ctrl-C ends it.

TEXT
wait "$server"
