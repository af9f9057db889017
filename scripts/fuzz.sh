#!/usr/bin/env bash
# Looks for texts that break the loaders (load) and for graphs that are differentiated wrongly (transform).
# usage: scripts/fuzz.sh [--seconds N] [load|transform]...    libFuzzer with sanitizers, both at once, 120 s; clang++-14
#        scripts/fuzz.sh --merge [load|transform]...          makes tests/data/fuzz of it and of the inputs found since
#        scripts/fuzz.sh --long [load|transform]...           seeded, in the release build: 10,000,000 damaged dumps, and
#                                                             1,000,000 random graphs to order 3; about an hour
# An input that breaks the target ends the run with status 1, and its path is printed. When the fault is fixed, the input is added to
# the regressions in tests/data/fuzz, which every build's tests replay.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=120
mode=fuzz
targets=()
while [ "$#" -gt 0 ]; do
  case "$1" in
    --seconds) seconds=$2; shift ;;
    --long | --merge) mode=${1#--} ;;
    load | transform) targets+=("$1") ;;
    *) sed -n '2,/^set/s/^# \?//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
[ "${#targets[@]}" -gt 0 ] || targets=(load transform)

data=tests/data/fuzz
made=build/asan/fuzz
export ASAN_OPTIONS=allocator_may_return_null=1:malloc_context_size=2 UBSAN_OPTIONS=print_stacktrace=1

# The target itself rejects inputs that take a second of processor time; the time limit here is for runs that do not end.
fuzzer() {
  local target=$1 options=(-max_len=4096 "-dict=$data/load.dict")
  [ "$target" = load ] || options=(-max_len=96)
  shift
  mkdir -p "$made/found" "$made/$target"
  "build/asan/bin/fuzz_$target" "${options[@]}" -entropic=0 -detect_leaks=0 -timeout=20 -rss_limit_mb=3000 "-artifact_prefix=$made/found/$target-" "$@"
}

fuzz() {
  local seeds=("$data/$1" "$data/$1_regressions")
  [ "$1" = transform ] || seeds+=(tests/data/dumps)
  fuzzer "$1" "-max_total_time=$seconds" -print_final_stats=1 "$made/$1" "${seeds[@]}"
}

merge() {
  local merged=$made/merged_$1
  rm -rf "$merged" && mkdir -p "$merged"
  fuzzer "$1" -set_cover_merge=1 -use_counters=0 "$merged" "$data/$1" "$made/$1"
  rm -f "$data/$1"/* && cp "$merged"/* "$data/$1"
}

long() {
  local only='damaged dumps*' scale=500  # of 20,000 dumps, and 100 of 10,000 graphs
  [ "$1" = load ] || { only='*every way*' scale=100; }
  TIDU_TEST_SCALE=$scale build/release/bin/test_fuzz "--test-case=$only"
}

if [ "$mode" = long ]; then
  scripts/build.sh release --target test_fuzz
else
  scripts/build.sh asan --target "${targets[@]/#/fuzz_}"
fi
mkdir -p "$made"
running=()
for target in "${targets[@]}"; do
  "$mode" "$target" >"$made/$target.log" 2>&1 &
  running+=($!)
done
failed=()
for i in "${!targets[@]}"; do
  wait "${running[$i]}" || failed+=("${targets[$i]}")
  printf '\n---- %s\n' "${targets[$i]}"
  tail -n 12 "$made/${targets[$i]}.log"
done
for target in "${failed[@]}"; do
  printf '\n---- %s failed, see %s\n' "$target" "$made/$target.log"
  sed -n "s|^.*Test unit written to |the input is $PWD/|p" "$made/$target.log"
  grep -aE -m 5 "^fuzz_$target:|ERROR: |runtime error: " "$made/$target.log" || true
done
[ "${#failed[@]}" -eq 0 ]
