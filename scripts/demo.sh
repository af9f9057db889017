#!/usr/bin/env bash
# Installs missing packages, builds tidu with its examples, and runs some of them on real input. Their pictures and logs are left in
# build/demo.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=build/release/bin
out=build/demo

# The programs of the demonstration, in order; each fails when its result is not right.
run_programs() {
  title "ADBench's four problems: objectives and whole derivatives against those of its hand-written C++"
  for problem in gmm_test gmm_1k_d2_K5 gmm_1k_d10_K25; do
    adbench gmm "$problem"
  done
  adbench ba ba_test
  adbench hand hand_test
  adbench hand hand_small/hand_simple_1
  adbench hand_complicated hand_test_complicated
  adbench hand_complicated hand_small/hand_complicated_1
  adbench lstm lstm_l2_c1024 --form flat
  adbench lstm lstm_l2_c1024 --form call
  title "Handwritten digits: two classifiers trained with value_and_grad, tested on rows they have not seen"
  "$bin/digits" --out "$out" 2>&1 | tee "$out/digits.log"
  title "The same eagerly: the network trained as its operations run, and ADBench's recurrent network"
  "$bin/digits_eager" --seeds 1 --epochs 20
  "$bin/lstm" examples/data/adbench/lstm_l2_c1024.txt --reference examples/data/adbench/lstm_l2_c1024.json --repeat 3
  title "Done"
  printf "The derivatives agree with ADBench's to 1e-8, and the classifiers are as accurate as they have to be.\n"
  printf 'Pictures: %s/training.svg and %s/digits.svg; what the training printed: %s/digits.log\n' "$out" "$out" "$out"
}

# A problem of ADBench by its name in examples/data/adbench, held against the values beside it.
adbench() {
  "$bin/adbench" "$1" "examples/data/adbench/$2.txt" --reference "examples/data/adbench/$2.json" "${@:3}"
}

title() {
  printf '\n== %s\n' "$1"
}

scripts/deps.sh demo
scripts/build.sh release -DTIDU_BUILD_TESTS=OFF -DTIDU_BUILD_BENCH=OFF --target adbench digits digits_eager lstm
mkdir -p "$out"
run_programs
