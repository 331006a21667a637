#!/bin/bash
# The long tier, as `make check-long` runs it: thread sanitizer, fuzzing, and tests on published data in the folder that
# LACONIC_DATA names (TESTING.md lists the files). Exits 2 at once when that is not set, 1 when something failed.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
seconds=${FUZZ_SECONDS:-60}
failed=0

if [ -z "${LACONIC_DATA:-}" ] || [ ! -d "$LACONIC_DATA" ]; then
  echo "LACONIC_DATA: found '${LACONIC_DATA:-}', expected the folder with the published data sets (see TESTING.md)" >&2
  exit 2
fi

# part NAME COMMAND…
part() {
  local name=$1 start=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  "$@" </dev/null || {
    failed=$((failed + 1))
    printf 'FAILED: %s\n' "$name"
  }
  printf '%d s\n' $((SECONDS - start))
}

build() {
  cmake --preset "$@" --fresh -Wno-dev --log-level=WARNING >/dev/null && cmake --build --preset "$1" -j "$jobs" >/dev/null
}

threads() {
  build tsan && ctest --preset tsan -j "$jobs" -R '^(base|comm|data|mixing|mac|hash|replica|nn|plan|cli)/'
}

# One target for $seconds; what it finds stays in the tree.
fuzz_one() {
  local program=$1 corpus=$2 name
  name=$(basename "$program")
  mkdir -p "build-fuzz/found/$name"
  if ! "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="build-fuzz/found/$name-" "build-fuzz/found/$name" "$corpus" >"build-fuzz/found/$name.log" 2>&1; then
    tail -n 40 "build-fuzz/found/$name.log"
    echo "$name: failed, the input is build-fuzz/found/$name-*"
    return 1
  fi
  echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "build-fuzz/found/$name.log") runs"
}

fuzz() {
  build fuzz || return 1
  export -f fuzz_one
  export seconds
  xargs -P "$jobs" -L 1 bash -c 'fuzz_one "$0" "$1"' <build-fuzz/fuzz_targets.txt
}

published() {
  build release -DLACONIC_LONG=ON && ctest --preset release -L long
}

part "thread sanitizer" threads
part "fuzzing, $seconds s a reader" fuzz
part "published data" published
printf '\n%d s, %d of 3 parts failed\n' "$SECONDS" "$failed"
[ "$failed" = 0 ]
