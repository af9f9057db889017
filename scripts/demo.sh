#!/usr/bin/env bash
# Installs what is missing, builds tidu with its examples, and runs two of them on real input. Pictures and logs of what
# they make are left in build/demo.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=build/release/bin
out=build/demo

# The programs of the demonstration, in order.
run_programs() {
  title "Gaussian mixture model: ADBench's own files, the gradient against its reference values"
  "$bin/gmm"
  title "Handwritten digits: two classifiers trained with value_and_grad, tested on rows they have not seen"
  "$bin/digits" --out "$out"
}

title() {
  printf '\n== %s\n' "$1"
}

scripts/deps.sh build
scripts/build.sh release -DTIDU_BUILD_TESTS=OFF -DTIDU_BUILD_BENCH=OFF
mkdir -p "$out"
run_programs
