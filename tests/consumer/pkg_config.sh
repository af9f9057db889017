#!/usr/bin/env bash
# Builds and runs programs with the flags of an installed tidu's pkg-config files, and no other build system.
# usage: pkg_config.sh PKGCONFIG-FOLDER FOLDER VERSION [COMPILER...]    FOLDER is for what it builds. Exit status 77 without pkg-config.
set -euo pipefail
export PKG_CONFIG_PATH=$1
out=$2 version=$3
shift 3
compiler=("${@:-c++}")
sources=$(cd "$(dirname "$0")" && pwd)
command -v pkg-config >/dev/null || { echo "pkg-config is not here: LEFT OUT"; exit 77; }

rm -rf "$out"
mkdir -p "$out"
got=$(pkg-config --modversion tidu)
[ "$got" = "$version" ] || { echo "expected version $version, got $got"; exit 1; }
pkg-config --validate tidu tidu-core tidu-cpu
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tidu)
export LD_LIBRARY_PATH

# build PROGRAM MODULE: tests/consumer/PROGRAM.cpp with the flags of MODULE
build() {
  read -ra flags <<<"$(pkg-config --cflags "$2")"
  read -ra libraries <<<"$(pkg-config --libs "$2")"
  "${compiler[@]}" -std=c++20 "${flags[@]}" -c "$sources/$1.cpp" -o "$out/$1.o"
  "${compiler[@]}" "$out/$1.o" -o "$out/$1" "${libraries[@]}"
  "$out/$1"
}
build core tidu-core
build boundary tidu
build minimal tidu-frontend
read -ra flags <<<"$(pkg-config --cflags --libs tidu-c)"
"${CC:-cc}" -std=c99 -pedantic "$sources/c_interface.c" -o "$out/c_interface" "${flags[@]}"
"$out/c_interface"
case "$(pkg-config --libs --static tidu-c)" in
  *tidu_core* | *dnnl*) echo "expected tidu-c to stand alone, got $(pkg-config --libs --static tidu-c)"; exit 1 ;;
esac
if pkg-config --exists tidu-mpi; then build mpi tidu-mpi; fi
case "$(pkg-config --libs tidu-core)" in
  *tidu_cpu* | *dnnl*) echo "expected tidu-core to stand alone, got $(pkg-config --libs tidu-core)"; exit 1 ;;
esac
echo "programs with pkg-config's flags: $(pkg-config --libs tidu)"
