#!/bin/bash
# tidy.sh TREE: clang-tidy with .clang-tidy over the sources, as TREE compiled them; any finding fails. What is compiled again
# for SMPI is looked at again only where the text asks for it.
set -uo pipefail
cd "$(dirname "$0")/.."
tree=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
python3 - "$tree/compile_commands.json" "$work/compile_commands.json" <<'EOF' || exit 1
import json
import sys

with open(sys.argv[1]) as file:
    entries = json.load(file)
once = [entry for entry in entries if "-DLACONIC_SMPI=1" not in entry["command"] or "LACONIC_SMPI" in open(entry["file"]).read()]
assert {entry["file"] for entry in once} == {entry["file"] for entry in entries}
with open(sys.argv[2], "w") as file:
    json.dump(once, file)
EOF
told=(-extra-arg=-include "-extra-arg=$PWD/tests/house/analyzer.h")
# The analyser gives up on a function after so many states: a fifth of the default finds the same in a third of the time.
limit=(-extra-arg=-Xclang -extra-arg=-analyzer-config -extra-arg=-Xclang -extra-arg=max-nodes=50000)
run() {
  run-clang-tidy -quiet -p "$work" -j "$(nproc)" "${limit[@]}" "$@" >>"$log" 2>&1
}
run "${told[@]}" "^$PWD/src/(?!base/context\.c)"
told_status=$?
run "^$PWD/src/base/context\.c" # where lac_fail is defined
status=$?
sed -i 's/\x1b\[[0-9;]*m//g' "$log"
grep -E -A3 '(warning|error):' "$log"
[ "$status$told_status" = 00 ] || { tail -n 5 "$log"; exit 1; }
