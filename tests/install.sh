#!/bin/bash
# install.sh TREE [static]: installs TREE into a folder of its own, moves it, and builds and runs the examples against it by
# pkg-config and by find_package, as a user would, with nothing of the source tree in reach. `static` is for a tree with a
# static library; flags for the compiler come from CFLAGS.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$PWD/$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CFLAGS="${CFLAGS:-} -Wall -Wextra -Werror"

cmake --install "$tree" --prefix "$work/unpacked" >/dev/null
mv "$work/unpacked" "$work/prefix" # a package is put wherever its owner likes
cp -r examples "$work/examples"
cd "$work"
libdir=$(dirname "$(find "$work/prefix" -name 'liblaconic.*' | head -n 1)")

for file in bin/laconic include/laconic/laconic.h share/man/man1/laconic.1 share/doc/laconic/LICENSE \
            share/bash-completion/completions/laconic; do
  [ -s "prefix/$file" ] || { echo "$file is not installed"; exit 1; }
done
for file in laconic-smpi.so laconic-platform; do # where SimGrid is
  [ ! -e "$tree/$file" ] || [ -s "prefix/libexec/laconic/$file" ] || { echo "$file is not installed"; exit 1; }
done
if grep -rIF -e "$tree" -e "$work/unpacked" prefix; then
  echo "the files above name the build tree or the folder of the first installation"
  exit 1
fi
prefix/bin/laconic --version

export PKG_CONFIG_PATH=$libdir/pkgconfig
run_all() {
  for name in encode_search mac_linear logistic; do
    LD_LIBRARY_PATH=$libdir "$1/$name"
  done
}
echo "-- pkg-config"
make -s -C examples PKG_CONFIG="pkg-config${2:+ --static}"
run_all examples
echo "-- find_package"
cmake -S examples -B cmake -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" --log-level=WARNING >/dev/null
cmake --build cmake >build.log || { cat build.log; exit 1; }
run_all cmake
