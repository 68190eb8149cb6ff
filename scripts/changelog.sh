#!/usr/bin/env bash
# Joins the fragments changes/*.md into the section Unreleased of CHANGELOG.md, each list item below its heading, and
# removes them. With a version it gives the section that name and the date of today: scripts/changelog.sh v0.2.0.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1-}
shopt -s nullglob
fragments=(changes/*.md)

# A fragment has headings ### Added, ### Changed, ### Fixed, ### Removed or ### Security, each with list items below.
for f in "${fragments[@]}"; do
	awk -v f="$f" '
		/^### (Added|Changed|Fixed|Removed|Security)$/ { heading = 1; item = 0; next }
		/^- / { item = 1; any = 1 }
		/^(- .*|  .*)?$/ { if ($0 == "" || (heading && item)) next }
		{ printf "%s:%d: neither a heading of the changelog nor a list item below one: %s\n", f, FNR, $0; bad = 1; exit }
		END { if (!bad && !any) printf "%s: no list item\n", f; exit bad || !any }' "$f" >&2
done

new=$(mktemp)
trap 'rm -f "$new"' EXIT
awk -v version="$version" -v today="$(date +%F)" '
	function trim(text) { sub(/^\n+/, "", text); sub(/\n+$/, "\n", text); return text }
	# add keeps a line of the section, or of a fragment, below its heading.
	function add(line) {
		if (line ~ /^### /) {
			heading = substr(line, 5)
			if (!(heading in text)) order[++n] = heading
			text[heading] = trim(text[heading])
		} else if (heading == "") before = before line "\n"
		else text[heading] = text[heading] line "\n"
	}
	function section(    i) {
		print "## Unreleased"
		if (version != "") printf "\n## %s, %s\n", version, today
		if (trim(before) != "") printf "\n%s", trim(before)
		for (i = 1; i <= n; i++) printf "\n### %s\n\n%s", order[i], trim(text[order[i]])
	}
	FILENAME != "CHANGELOG.md" { if ($0 != "") add($0); next }
	/^## / && inside { inside = 0; held = held "\n" $0 "\n"; next }
	/^## Unreleased$/ { inside = 1; seen = 1; heading = ""; next }
	inside { add($0); next }
	seen { held = held $0 "\n"; next }
	{ print }
	END {
		if (!seen) { print "CHANGELOG.md has no section Unreleased" >"/dev/stderr"; exit 1 }
		section()
		printf "%s", held
	}' CHANGELOG.md "${fragments[@]}" >"$new"
cat "$new" >CHANGELOG.md
rm -f "${fragments[@]}"
