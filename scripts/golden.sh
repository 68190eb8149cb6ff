#!/usr/bin/env bash
# Rewrites what is made from the code, and says which files have changed: the documents below docs and the order of the
# messages; with the argument "all" also the expected output of tests, which takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1-documents}

made() { find docs internal/web/messages -type f -exec sha256sum {} + | sort -k 2; }
before=$(made)
mapfile -t packages < <(grep -rlE 'GATEHOUSE_GOLDEN|goldentest\.Documents' --include='*_test.go' . | xargs -n1 dirname | grep -v goldentest | sort -u)
GATEHOUSE_GOLDEN=write go test -run='Documents$|AreSorted$' "${packages[@]}" >/dev/null || GATEHOUSE_GOLDEN=write go test -run='Documents$|AreSorted$' "${packages[@]}"
diff <(echo "$before") <(made) | sed -nE 's/^[<>] [0-9a-f]+  (.*)/rewritten: \1/p' | sort -u || true

if [ "$what" = all ]; then
	grep -rlE 'flag\.Bool\("update"' --include='*_test.go' . | xargs -r -n1 dirname | sort -u | while read -r dir; do
		(cd "$dir" && go test -count=1 . -update)
	done
fi
