#!/usr/bin/env bash
# Installs the Debian packages that are missing; quick when none is.
# usage: scripts/deps.sh [build|bench|test|ci]...    build: library, command and examples; bench: that and scripts/bench.sh; test:
#                                                    build, the tests, Debian packages and tidu_bench; ci: that and more
# The presets of CMake build the tests, too, unless they are told -DTIDU_BUILD_TESTS=OFF, with which the group build is enough.
set -euo pipefail

build=(g++ cmake ninja-build ccache libeigen3-dev libboost-graph-dev nlohmann-json3-dev libdnnl-dev libxbyak-dev
       libopenmpi-dev openmpi-bin)
bench=(python3 python3-numpy python3-venv)
tests=(doctest-dev libbenchmark-dev python3 python3-numpy graphviz dpkg-dev file pkgconf)
ci=(clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev doxygen git)

wanted=()
for group in "${@:-ci}"; do
  case "$group" in
    build) wanted+=("${build[@]}") ;;
    bench) wanted+=("${build[@]}" "${bench[@]}") ;;
    test) wanted+=("${build[@]}" "${tests[@]}") ;;
    ci) wanted+=("${build[@]}" "${tests[@]}" "${ci[@]}") ;;
    *) echo "deps.sh: expected build, bench, test or ci, got $group" >&2; exit 2 ;;
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
