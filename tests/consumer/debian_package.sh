#!/usr/bin/env bash
# Makes the Debian package, installs it with dpkg in a root of its own, which has this machine's packages for its dependencies, uses it
# from there, and removes it. Without the rights of root it is unpacked instead.
# usage: debian_package.sh BUILD-FOLDER FOLDER VERSION [CMAKE-ARGUMENT...]   FOLDER is for all that is made; the arguments are for
#                          the project that finds tidu. Exit status 77 where there is no dpkg.
set -euo pipefail
build=$1 out=$2 version=$3
shift 3
sources=$(cd "$(dirname "$0")" && pwd)
for tool in cpack dpkg dpkg-deb dpkg-shlibdeps file; do
  command -v "$tool" >/dev/null || { echo "$tool is not here: LEFT OUT"; exit 77; }
done

rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$out" >"$out/cpack.log" || { cat "$out/cpack.log"; exit 1; }
package=$(ls "$out"/libtidu-dev_"$version"-1_*.deb)
depends=$(dpkg-deb -f "$package" Depends)
case "$depends" in
  *libstdc++6*) echo "$(basename "$package") depends on $depends" ;;
  *) echo "expected dependencies, libstdc++6 among them, got '$depends'"; exit 1 ;;
esac
if grep -qE '/(openmpi|mpich)' "$build/pkgconfig/tidu-mpi.pc" 2>/dev/null; then
  suggests=$(dpkg-deb -f "$package" Suggests)
  case "$suggests" in
    *libopenmpi-dev* | *libmpich-dev*) ;;
    *) echo "expected tidu::mpi to suggest MPI's headers, got '$suggests'"; exit 1 ;;
  esac
fi

# The package's scripts call ldconfig, here one that leaves this machine's libraries alone.
root=$out/root
mkdir -p "$root/var/lib/dpkg/"{info,updates,triggers} "$out/bin"
printf '#!/bin/sh\n' >"$out/bin/ldconfig"
chmod +x "$out/bin/ldconfig"
in_root() {
  PATH=$out/bin:$PATH:/usr/sbin:/sbin dpkg --root="$root" --force-script-chrootless --log=/dev/null "$@" >"$out/dpkg.log" 2>&1 ||
    { tail "$out/dpkg.log"; exit 1; }
}
if [ "$(id -u)" -eq 0 ]; then
  cp /var/lib/dpkg/status "$root/var/lib/dpkg/"
  in_root -i "$package"
  state=$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${db:Status-Status} ${Version}' libtidu-dev)
  [ "$state" = "installed $version-1" ] || { echo "expected to be installed, got $state"; exit 1; }
else
  echo "not root: unpacked, not installed"
  dpkg-deb -x "$package" "$root"
fi

"$root/usr/bin/tidu" ops >"$out/ops"
grep -q '^sin ' "$out/ops"
test -s "$root/usr/share/doc/libtidu-dev/copyright"
! grep -rn 'libcudart' "$root/usr" --include='tiduTargets*.cmake' ||
  { echo "expected no path of a CUDA runtime in what CMake finds the package by"; exit 1; }
for compiler in g++ clang++; do
  command -v "$compiler" >/dev/null || { echo "$compiler is not here: LEFT OUT"; continue; }
  cmake -S "$sources/find_package" -B "$out/$compiler" "-DCMAKE_PREFIX_PATH=$root/usr" "-DEXPECTED_VERSION=$version" "$@" \
    "-DCMAKE_CXX_COMPILER=$compiler" >/dev/null
  cmake --build "$out/$compiler" --target consumer consumer_minimal
  "$out/$compiler/consumer"
done
PKG_CONFIG_PATH=$(dirname "$(find "$root/usr" -name tidu.pc)") pkg-config --exists "tidu = $version"

if [ "$(id -u)" -eq 0 ]; then
  in_root -r libtidu-dev
  left=$(find "$root" -path "$root/var" -prune -o -type f -print)
  [ -z "$left" ] || { echo "removed, it leaves $left"; exit 1; }
fi
