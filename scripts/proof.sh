#!/usr/bin/env bash
# Runs what scripts/proof.txt lists, or the names that are given, and writes docs/reports/DATE-NAME.md of each: the
# machine, the commit, the command, the result, and the SHA-256 of the whole output, which goes to bin/proof. It ends
# with an error if a command does. GATEHOUSE_PROOF names another list.
set -euo pipefail
cd "$(dirname "$0")/.."
list=${GATEHOUSE_PROOF:-scripts/proof.txt}
day=$(date -u +%F)
changed=""
[[ -z $(git status --porcelain 2>/dev/null) ]] || changed=", with changes that are not committed"
machine="$(uname -srm), $(nproc) × $(sed -nE 's/^model name\s*: //p' /proc/cpuinfo 2>/dev/null | head -1 || true), $(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo 2>/dev/null || true)"
mkdir -p bin/proof docs/reports

status=0
known=" "
while IFS=$'\t' read -r name title command; do
	[[ -n $name && $name != \#* ]] || continue
	known+="$name "
	(($# == 0)) || [[ " $* " == *" $name "* ]] || continue
	out=bin/proof/$day-$name.txt
	echo "proof: $name"
	begun=$(date +%s)
	code=0
	bash -c "$command" >"$out" 2>&1 </dev/null || code=$?
	took=$(($(date +%s) - begun))
	((code == 0)) || status=1
	{
		echo "# $title, $day"
		echo
		echo "| | |"
		echo "|---|---|"
		echo "| result | $( ((code == 0)) && echo passed || echo "failed, exit $code") in $took s |"
		echo "| command | \`${command//|/\\|}\` |"
		echo "| commit | \`$(git rev-parse HEAD 2>/dev/null || echo unknown)\`$changed |"
		echo "| machine | $machine |"
		echo "| Go | $(go env GOVERSION) |"
		echo "| output | $(wc -l <"$out") lines, SHA-256 \`$(sha256sum "$out" | cut -d ' ' -f 1)\` |"
		echo
		if grep -qE '^ *--- (PASS|FAIL|SKIP)' "$out"; then
			echo "$(grep -cE '^ *--- PASS' "$out" || true) tests passed, $(grep -cE '^ *--- FAIL' "$out" || true) failed and $(grep -cE '^ *--- SKIP' "$out" || true) were skipped. The last lines:"
		else
			echo "The last lines:"
		fi
		echo
		echo '```text'
		grep -vE '^(=== |\{"level")' "$out" | tail -n 15 | cut -c 1-200 || true
		echo '```'
		[[ $name != conformance ]] || printf '\n%s\n' "The modules are replayed here, as tests of this tree. The OpenID Foundation has issued no certificate."
	} >"docs/reports/$day-$name.md"
	echo "proof: docs/reports/$day-$name.md: $( ((code == 0)) && echo passed || echo failed)"
done <"$list"
for name; do
	[[ $known == *" $name "* ]] || { echo "proof: $name is not in $list:$known" >&2; status=2; }
done
exit $status
