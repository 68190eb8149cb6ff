#!/usr/bin/env bash
# Writes the tables of docs/adr/0005-rooms.md anew: the packages before the split and in the work tree.
set -euo pipefail
cd "$(dirname "$0")/.."
before=bdd59f4
adr=docs/adr/0005-rooms.md
measure() { go run ./internal/rooms "$@" identity authz caddymodule; }

old=$(measure -rev "$before")
new=$(measure)
text=$(sed '/^## Figures$/,$d' "$adr")
cat >"$adr" <<END
$text

## Figures

Made by \`scripts/rooms.sh\`, which runs \`go run ./internal/rooms\`. Lines and files are those of packages without tests.
A border is a pair of packages of which one uses the other; what crosses it is every distinct function, type, constant,
variable, method and field of the used package that the other one names, and after the slash how often.

### Before: $before

$old

### After

$new
END
