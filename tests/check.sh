#!/bin/bash
# The default tier, as `make check` runs it: builds and tests the release and the sanitised tree, checks format and
# clang-tidy, installs and builds the examples against what was installed. Goes on after a failure, so that one run shows
# all of them; exits 1 if there was one. The last line counts tests and checks.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
tests_at_a_time=$((jobs + 1)) # many wait most of their time: for a deadline, for ranks that sleep
passed=0
failed=0
timing=()

# phase NAME COMMAND…: runs it, prints how long it took and counts it as one check.
phase() {
  local name=$1 start=$SECONDS status
  shift
  printf '\n== %s\n' "$name"
  "$@" </dev/null
  status=$?
  timing+=("$(printf '%4d s  %s' $((SECONDS - start)) "$name")")
  if [ $status = 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n' "$name"
  fi
  return $status
}

build() {
  cmake --preset "$1" --fresh -Wno-dev --log-level=WARNING && cmake --build --preset "$1" -j "$jobs"
}

# Each test of a tree counts by itself.
tests() {
  local log=$2/check.log total bad
  ctest --preset "$1" -j "$tests_at_a_time" 2>&1 | tee "$log" | grep -v '^ *Start '
  local status=${PIPESTATUS[0]}
  read -r bad total < <(sed -n 's/^.*, \([0-9]*\) tests failed out of \([0-9]*\)$/\1 \2/p' "$log")
  if [ -z "${total:-}" ] || [ "$total" = 0 ]; then
    echo "no test ran"
    return 1
  fi
  # The phase itself is counted by phase(): one check less here.
  passed=$((passed + total - bad - (status == 0)))
  failed=$((failed + bad - (status != 0)))
  return "$status"
}

phase "build, release" build release && phase "tests, release" tests release build
phase "format" tests/format.sh
phase "examples against the installed library" tests/install.sh build
phase "clang-tidy" tests/tidy.sh build
phase "build, address and undefined-behaviour sanitizers" build asan &&
  phase "tests, address and undefined-behaviour sanitizers" tests asan build-asan
phase "examples against the installed static library, sanitised" \
  env CFLAGS=-fsanitize=address,undefined tests/install.sh build-asan static

printf '\n'
printf '%s\n' "${timing[@]}"
printf '%4d s  in all\n\n%d passed, %d failed\n' "$SECONDS" "$passed" "$failed"
[ "$failed" = 0 ]
