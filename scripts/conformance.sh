#!/usr/bin/env bash
# Runs the modules of the OpenID Foundation's conformance plans as tests and prints a line for each: PASS or FAIL and
# its name. The output of failed modules follows.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp)
trap 'rm -f "$out"' EXIT
status=0
go test -count=1 -run='^TestConformance$' -v ./authz >"$out" 2>&1 || status=$?
sed -nE 's|^ +--- ([A-Z]+): TestConformance/([^ ]+) .*|\1 \2|p' "$out" | sort -k2
if ((status)); then
	grep -vE '^(=== | *--- PASS)' "$out" >&2
fi
exit "$status"
