#!/usr/bin/env bash
# Installs missing packages, builds, and runs the tests that show that a build is right. With --all also long tests and those that need
# more: random tests at their full counts, other projects that use tidu, the documentation's programs and reference, the tests of bench/.
# usage: scripts/test.sh [--all] [PRESET] [CTEST-ARGUMENT...]     the preset release unless said
# TIDU_TEST_SCALE   how long random tests are, of their full counts: a fifth without --all, unless said
set -euo pipefail
cd "$(dirname "$0")/.."

group=test
options=(-DTIDU_BUILD_BENCH=OFF)
selection=(-LE extended)
scale=0.2
if [ "${1:-}" = --all ]; then
  group=all
  options=(-DTIDU_BUILD_BENCH=ON)
  selection=()
  scale=1
  shift
fi
preset=release
if [ "$#" -gt 0 ] && [ "${1#-}" = "$1" ]; then
  preset=$1
  shift
fi
scripts/deps.sh "$group"
scripts/build.sh "$preset" "${options[@]}" -DTIDU_BUILD_TESTS=ON
export TIDU_TEST_SCALE=${TIDU_TEST_SCALE:-$scale}
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$(nproc)" "${selection[@]}" "$@"
