#!/bin/bash
# Names every C file that clang-format would change, with the first place, and exits 1 if there is one. With -i it changes
# them.
set -uo pipefail
cd "$(dirname "$0")/.."
options=(--dry-run -Werror)
[ "${1:-}" != -i ] || options=(-i)
find . -name 'build*' -prune -o -name '*.[ch]' -print0 | sort -z | xargs -0 clang-format "${options[@]}"
