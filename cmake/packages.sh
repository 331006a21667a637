#!/bin/bash
# packages.sh NAME…: installs those of the named Debian packages that are missing. Root only; anybody else is shown the
# command and gets status 1. apt is not called when nothing is missing.
set -euo pipefail

[ "${LACONIC_PACKAGES:-1}" != 0 ] || exit 0
if ! command -v dpkg-query >/dev/null; then
  echo "This is no Debian: install by hand what the following packages hold (LACONIC_PACKAGES=0 skips this check):" >&2
  echo "  $*" >&2
  exit 1
fi

missing=()
for name in "$@"; do
  # shellcheck disable=SC2016
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
  echo "Missing packages. Run this as root, then try again:" >&2
  echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
echo "Installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
  tail -n 20 "$log" >&2
  echo "apt-get could not install: ${missing[*]}" >&2
  exit 1
fi
