#!/usr/bin/env bash
# Builds the Python package and runs its tests, the programs of its page and its notebook, in an environment of its own in build/python.
# Packages come from PyPI. The libraries are those of the row "bare" of scripts/matrix.sh, which are made if they are not there; the
# package then needs nothing installed, which is checked.
# usage: scripts/python.sh [PREFIX]     with PREFIX: the libraries of the tidu that is installed there
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/build/python
scripts/deps.sh build python

# Configurations that scripts/matrix.sh has built are not configured again.
bare_libraries() {
  local options=()
  [ -f build/matrix-bare/build.ninja ] || options=(-DTIDU_ONEDNN=OFF -DTIDU_LAPACK=OFF -DTIDU_LANES=OFF -DTIDU_MPI=OFF -DTIDU_CUDA=OFF)
  scripts/build.sh release -B build/matrix-bare "${options[@]}" --target tidu_installed
  rm -rf "$folder/tidu"
  cmake --install build/matrix-bare --prefix "$folder/tidu" >/dev/null
}
prefix=${1:-$folder/tidu}
[ "$#" -gt 0 ] || bare_libraries

# The folders of a build have the same names each time, so that the compiler cache serves.
python3 -m venv "$folder/venv"
pip=("$folder/venv/bin/pip" --disable-pip-version-check -q)
"${pip[@]}" install scikit-build-core nanobind ninja
CMAKE_PREFIX_PATH=$prefix CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$PWD CCACHE_DEPEND=1 "${pip[@]}" wheel --no-build-isolation --no-deps \
  --config-settings=cmake.define.TIDU_PYTHON_INSTALLED=ON --config-settings=build-dir="$folder/build" \
  --config-settings=cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache -w "$folder/wheel" ./python
wheel=$(ls -t "$folder"/wheel/tidu-*.whl | head -n 1)
"${pip[@]}" install --force-reinstall --no-deps "$wheel"
"${pip[@]}" install "$wheel[test,notebook,jax]"

# The module depends only on the C and C++ libraries of any Linux.
module=$(echo "$folder"/venv/lib/python3*/site-packages/tidu/_core.*.so)
needed=$(readelf -d "$module" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
others=$(grep -vE '^(lib(c|m|mvec|gcc_s|stdc\+\+|pthread|dl|rt)\.so\.|ld-linux)' <<<"$needed" || true)
echo "needed:" $needed
[ "$#" -gt 0 ] || [ -z "$others" ] || { echo "python.sh: expected a module that needs nothing installed, got one that needs $others" >&2; exit 1; }

"$folder/venv/bin/pytest" -q -p no:cacheprovider -o faulthandler_timeout=120 python/tests
