#!/usr/bin/env bash
# Rewrites the golden files and the generated documents: runs every test package that has an -update flag.
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rlE 'flag\.Bool\("update"' --include='*_test.go' . | xargs -r -n1 dirname | sort -u | while read -r dir; do
	(cd "$dir" && go test -count=1 . -update)
done
