#!/usr/bin/env bash
# Installs the Debian packages that are missing; quick when none is.
# usage: scripts/deps.sh [build|test|ci]...    build: library, command and examples; test: that and the tests; ci: all
set -euo pipefail

build=(g++ cmake ninja-build ccache libeigen3-dev libboost-graph-dev nlohmann-json3-dev libdnnl-dev libxbyak-dev
       libopenmpi-dev openmpi-bin)
tests=(doctest-dev libbenchmark-dev python3 python3-numpy graphviz dpkg-dev file pkgconf)
ci=(clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev doxygen git)

wanted=()
for group in "${@:-ci}"; do
  case "$group" in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${build[@]}" "${tests[@]}") ;;
    ci) wanted+=("${build[@]}" "${tests[@]}" "${ci[@]}") ;;
    *) echo "deps.sh: expected build, test or ci, got $group" >&2; exit 2 ;;
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
