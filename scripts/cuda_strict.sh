#!/usr/bin/env bash
# Runs the tests of the CUDA executor on the strict emulator, which checks the same as compute-sanitizer on a GPU: accesses out of
# bounds or misaligned, races, reads of uninitialised memory, barriers that not all threads reach. A GPU is not needed.
# usage: scripts/cuda_strict.sh [--seeds N] [--first SEED] [--blocks N] [--scale X] [TEST CASE]...
#   --seeds N      N orders of threads and blocks, one after another; 3 when it is not given
#   --first SEED   the first one; a finding names its seed
#   --blocks N     only grids of at most N blocks; else seeds take 1, 2, 3 and as many as planned in turns
#   --scale X      length of the random tests (TIDU_TEST_SCALE), 0.1 when it is not given
#   TEST CASE      patterns of test cases, such as 'scans*'; all but those of this machine's device when none is given
# Ends with status 1 when something was found. The whole takes about a quarter of an hour of one processor for each seed.
set -euo pipefail
cd "$(dirname "$0")/.."

seeds=3
first=1
blocks=
scale=0.1
cases=()
while [ "$#" -gt 0 ]; do
  case "$1" in
    --seeds) seeds=$2; shift ;;
    --first) first=$2; shift ;;
    --blocks) blocks=$2; shift ;;
    --scale) scale=$2; shift ;;
    -*) sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0" >&2; exit 2 ;;
    *) cases+=("$1") ;;
  esac
  shift
done
chosen='--test-case-exclude=this machine*'
[ "${#cases[@]}" -eq 0 ] || chosen="--test-case=$(IFS=,; echo "${cases[*]}")"

scripts/build.sh release --target test_cuda
failed=()
for ((seed = first; seed < first + seeds; ++seed)); do
  most=${blocks:-$((seed % 4))} # 0: as planned
  printf '\n---- seed %s, %s\n' "$seed" "$([ "$most" = 0 ] && echo "all blocks" || echo "at most $most blocks")"
  TIDU_STRICT_SEED=$seed TIDU_STRICT_BLOCKS=$most TIDU_TEST_SCALE=$scale build/release/bin/test_cuda "$chosen" ||
    failed+=("$seed")
done
if [ "${#failed[@]}" -gt 0 ]; then
  echo "found something with seeds ${failed[*]}: scripts/cuda_strict.sh --seeds 1 --first ${failed[0]} 'TEST CASE' repeats it" >&2
  exit 1
fi
