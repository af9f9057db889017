#!/usr/bin/env bash
# Installs what is missing, builds and runs the tests. The default preset is dev.
# usage: scripts/test.sh [PRESET] [CTEST-ARGUMENT...]
set -euo pipefail
cd "$(dirname "$0")/.."

preset=dev
if [ "$#" -gt 0 ] && [ "${1#-}" = "$1" ]; then
  preset=$1
  shift
fi
scripts/deps.sh test
scripts/build.sh "$preset"
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$(nproc)" "$@"
