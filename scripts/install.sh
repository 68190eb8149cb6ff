#!/usr/bin/env bash
# Installs what the tests need and this machine lacks: a C compiler (the race detector needs one), Chromium, Node.js with npm,
# Python's requests-oauthlib, and the npm packages of e2e/node. Debian and Ubuntu; elsewhere it names what is missing. Needs root or sudo only when it installs.
set -euo pipefail
cd "$(dirname "$0")/.."

have() { command -v "$1" >/dev/null 2>&1; }

missing=()
have make || missing+=(make)
have gcc || missing+=(gcc libc6-dev)
have chromium || have chromium-browser || have google-chrome || missing+=(chromium fonts-dejavu-core)
have node || missing+=(nodejs)
have npm || missing+=(npm)
/usr/bin/python3 -c 'import requests_oauthlib' 2>/dev/null || missing+=(python3-requests-oauthlib)
have curl || missing+=(curl ca-certificates)

if ((${#missing[@]})); then
	have apt-get || { echo "install: not a Debian or Ubuntu: please install ${missing[*]}" >&2; exit 1; }
	sudo=()
	if [[ $(id -u) != 0 ]]; then
		have sudo || { echo "install: neither root nor sudo: please install ${missing[*]}" >&2; exit 1; }
		sudo=(sudo)
	fi
	echo "install: ${missing[*]}"
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${missing[@]}" >/dev/null
fi

# npm writes this file last, so it is as old as what was installed
if [[ ! e2e/node/node_modules/.package-lock.json -nt e2e/node/package-lock.json ]]; then
	(cd e2e/node && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
	touch e2e/node/node_modules/.package-lock.json
fi
