#!/usr/bin/env bash
# Installs the Debian packages that are missing; quick when none is.
# usage: scripts/deps.sh [GROUP]...    ci by default
#   demo    the packages for scripts/demo.sh
#   build   library, command and examples
#   bench   build, and scripts/bench.sh
#   python  the packages to compile the Python package, in addition to the libraries of build
#   test    build, the tests and tidu_bench
#   all     test, and the packages for scripts/test.sh --all
#   ci      all, and the compilers and tools of .ci/run
#   clang-14, clang-16, clang-19    that compiler
#   aarch64                         a cross compiler, and qemu to run what it makes
# The presets of CMake build the tests, too, unless -DTIDU_BUILD_TESTS=OFF is set, with which the group build is enough.
set -euo pipefail

demo=(g++ cmake ninja-build ccache libeigen3-dev libboost-graph-dev nlohmann-json3-dev libdnnl-dev liblapack-dev libxbyak-dev)
build=("${demo[@]}" libopenmpi-dev openmpi-bin)
bench=(python3 python3-numpy python3-venv)
python=(g++ python3 python3-dev python3-venv)
tests=(doctest-dev libbenchmark-dev python3 python3-numpy graphviz)
all=(clang dpkg-dev file pkgconf doxygen git)
ci=(python3-dev python3-venv clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev)
aarch64=(g++-aarch64-linux-gnu qemu-user)

wanted=()
for group in "${@:-ci}"; do
  case "$group" in
    demo) wanted+=("${demo[@]}") ;;
    build) wanted+=("${build[@]}") ;;
    bench) wanted+=("${build[@]}" "${bench[@]}") ;;
    python) wanted+=("${python[@]}") ;;
    test) wanted+=("${build[@]}" "${tests[@]}") ;;
    all) wanted+=("${build[@]}" "${tests[@]}" "${all[@]}") ;;
    ci) wanted+=("${build[@]}" "${tests[@]}" "${all[@]}" "${ci[@]}") ;;
    clang-14 | clang-16 | clang-19) wanted+=("$group") ;;
    aarch64) wanted+=("${aarch64[@]}") ;;
    *) echo "deps.sh: expected demo, build, bench, python, test, all, ci, clang-14, clang-16, clang-19 or aarch64, got $group" >&2; exit 2 ;;
  esac
done

missing=()
for package in $(printf '%s\n' "${wanted[@]}" | sort -u); do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

echo "installing: ${missing[*]}"
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
