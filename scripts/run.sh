#!/usr/bin/env bash
# Serves Caddyfile.example and, once it is ready, prints what to look at. At the first start some people sign in, and
# some are refused, so that the admin console has something to show. Ctrl-C ends it.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${GATEHOUSE_BIN:-$PWD/bin/gatehouse}
[ -x "$bin" ] || { echo "$bin is missing: run make build" >&2; exit 1; }
[ -e data/gatehouse ] || fresh=1
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
# life gives a new demo something to show: people, sign-ins, and refusals.
life() {
	local name
	for name in "Ann Visser,staff" "Ben Okafor,guests" "Carla Rossi,staff" "Dmitri Petrov,guests" "Eva Lindqvist,staff"; do
		echo open-the-gate | "$bin" gatehouse person add "$(tr '[:upper:]' '[:lower:]' <<<"${name%% *}")@example.com" --name "${name%,*}" --groups "${name#*,}"
	done
	visit ann@example.com open-the-gate
	visit carla@example.com open-the-gate
	visit eva@example.com wrong-password
	visit eva@example.com open-the-gate
	visit ben@example.com open-the-gate    # not in the group that the page asks for
	visit dmitri@example.com open-the-gate # nor is he
	visit mallory@example.com let-me-in
	curl -s -o /dev/null -u reports:an-example-secret-do-not-use-it-elsewhere -d grant_type=client_credentials http://localhost:8420/oauth/token
	curl -s -o /dev/null http://localhost:8422/orders
	"$bin" gatehouse person block dmitri@example.com --reason "left the company"
}

visit() { # opens the protected page and signs in: username, password
	local jar page action
	local -a browser
	jar=$(mktemp)
	browser=(curl -sL -H 'Accept: text/html' -H 'Sec-Fetch-Mode: navigate' -H 'Sec-Fetch-Dest: document' -A 'Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0' -c "$jar" -b "$jar")
	page=$("${browser[@]}" http://localhost:8421/)
	action=$(sed -n 's/.*<form[^>]* action="\([^"]*\)".*/\1/p' <<<"$page" | head -n 1 | sed 's/&amp;/\&/g')
	"${browser[@]}" -o /dev/null -H 'Sec-Fetch-Site: same-origin' --data-urlencode "csrf=$(sed -n 's/.*name="csrf" value="\([^"]*\)".*/\1/p' <<<"$page" | head -n 1)" \
		--data-urlencode "username=$1" --data-urlencode "password=$2" "http://localhost:8420$action"
	rm -f "$jar"
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

if [ -n "${fresh:-}" ] && command -v curl >/dev/null; then
	life >data/life.log 2>&1 & # takes some seconds
fi

cat <<'TEXT'

  Gatehouse is up.

  A protected page    http://localhost:8421/
    sign in as        demo@example.com
    with              open-the-gate

  The admin console   http://localhost:8420/admin
    sign in as        the same person, who owns it
    look at           Overview, then Refusals: click ben@example.com to see why he may not open the page;
                      People: click a person to see what they can open, and to block them or end their sessions

  A protected API     a token for a program, and the call that it opens:
    TOKEN=$(curl -s -u reports:an-example-secret-do-not-use-it-elsewhere -d grant_type=client_credentials http://localhost:8420/oauth/token | sed 's/.*"access_token":"\([^"]*\)".*/\1/')
    curl -s -H "Authorization: Bearer $TOKEN" http://localhost:8422/orders

  The data lies in    ./data (remove it to start afresh); the log is data/run.log
  The configuration   Caddyfile.example

  Ctrl-C ends it.

TEXT
wait "$server"
