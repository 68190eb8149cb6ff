#!/usr/bin/env bash
# Plays the attacks of docs/attacks, or with the word peer the weaknesses of other products in docs/attacks/peers.md, and
# prints a line for each number: PASS, FAIL, N/A with the reason, or LOST if no test has played it, and what it is about.
# The output of failed tests follows. The tests of e2e need the built binary; those of faults belong to make faults.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:-attack}
rows=(docs/attacks/*.md)
if [[ $kind == peer ]]; then
	rows=(docs/attacks/peers.md)
else
	rows=("${rows[@]/docs\/attacks\/peers.md/}")
fi
out=$(mktemp)
trap 'rm -f "$out"' EXIT
status=0

# play DIRECTORY runs the tests of a module that are in files with such attacks.
play() {
	local -a files dirs
	local names
	mapfile -t files < <(cd "$1" && grep -rlE --include='*_test.go' --exclude-dir={e2e,faults,bench,release,tools,node_modules} "[\"\`]$kind [0-9]+(, ?[0-9]+)*: " .)
	((${#files[@]})) || return 0
	mapfile -t dirs < <(dirname "${files[@]}" | sort -u)
	names=$(cd "$1" && for f in "${files[@]}"; do
		grep -hoE '^func Test[A-Za-z0-9_]+' "$f" || grep -hoE '^func Test[A-Za-z0-9_]+' "$(dirname "$f")"/*_test.go # a helper of the tests there
	done | sed 's/^func //' | sort -u | paste -sd '|')
	(cd "$1" && go test -count=1 -timeout=60m -v -run="^($names)\$" "${dirs[@]}") >>"$out" 2>&1 || status=1
}
play .
play e2e
sed -nE "s|^ +--- ([A-Z]+): .*/${kind}_([0-9]+(,_?[0-9]+)*):.*|\1 \2|p" "$out" | sed 's/,_*/ /g' |
	awk '
	FILENAME == "-" { for (i = 2; i <= NF; i++) if (!($i in result) || $1 != "PASS") result[$i] = $1; next }
	match($0, /^\| [0-9]+ \|/) {
		split($0, cell, / *\| */)
		if (match($0, / Not tested: [^|]*/)) { print "N/A ", cell[2], substr($0, RSTART + 13, RLENGTH - 13); none++; next }
		if (FILENAME ~ /supply-chain/ && !(cell[2] in result)) { print "N/A ", cell[2], "make supply tests it"; none++; next }
		verdict = cell[2] in result ? result[cell[2]] : "LOST"
		print verdict, cell[2], cell[3]
		count[verdict]++
	}
	END {
		printf "%d passed, %d failed, %d do not apply, %d lost\n", count["PASS"], count["FAIL"] + count["SKIP"], none, count["LOST"]
		exit count["PASS"] == 0 || count["FAIL"] + count["SKIP"] + count["LOST"] > 0
	}' - ${rows[@]} || status=1
if ((status)); then
	grep -vE '^(=== | *--- PASS|\{"level")' "$out" >&2 || true
fi
exit "$status"
