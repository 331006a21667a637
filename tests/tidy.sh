#!/bin/bash
# tidy.sh TREE: clang-tidy with .clang-tidy over the sources, as TREE compiled them; any finding fails.
set -uo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run-clang-tidy -quiet -p "$1" -j "$(nproc)" "^$PWD/src/" >"$log" 2>&1
status=$?
grep -E -A3 'warning:|error:' "$log"
[ $status = 0 ] || tail -n 5 "$log"
exit $status
