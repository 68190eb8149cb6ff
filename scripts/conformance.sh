#!/usr/bin/env bash
# Runs the modules of the OpenID Foundation's conformance plans as tests and prints a line for each module of
# scripts/conformance.txt: PASS, FAIL, N/A with the reason, or LOST if no test has its name; its plan and its name. The
# output of failed tests follows. A module that the suite lacks has the plan "own".
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp)
trap 'rm -f "$out"' EXIT
status=0
go test -count=1 -timeout=9m -run='^(TestConformance|TestAuthZEN$)' -v ./authz ./authz/jar ./authz/ssf ./admin/authzen >"$out" 2>&1 || status=$?
sed -nE 's|^ +--- ([A-Z]+): Test[A-Za-z0-9]+/(.*/)?([^/ ]+)/([^/ ]+) \(.*|\1 \3 \4|p' "$out" | grep -v ' attack_' |
	awk '
	NR == FNR { if (!(($2, $3) in result) || $1 != "PASS") result[$2, $3] = $1; plans[$2, $3] = $2; names[$2, $3] = $3; next }
	/^#/ { next }
	{
		key = $1 SUBSEP $2; plan = $1; name = $2; reason = $0
		sub(/^[^ ]+ [^ ]+ ?/, "", reason)
		if (reason != "") { print "N/A ", plan, name ": " reason; none++ }
		else if (key in result) { print result[key], plan, name; count[result[key]]++ }
		else { print "LOST", plan, name; lost++ }
		delete result[key]
	}
	END {
		for (key in result) if (plans[key] ~ /-test-plan$|^of_ours$/) { print result[key], "own", names[key]; ours++ }
		printf "%d passed, %d failed, %d do not apply, %d lost, %d more than the suite has\n", count["PASS"], count["FAIL"], none, lost, ours
		exit lost > 0 || count["FAIL"] > 0
	}' - scripts/conformance.txt || status=1
if ((status)); then
	grep -vE '^(=== | *--- PASS)' "$out" >&2
fi
exit "$status"
