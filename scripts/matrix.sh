#!/usr/bin/env bash
# Builds every configuration that an option, a preset or a script offers, and runs its tests: the programs test_*, among them all
# conformance cases. The default configuration, g++ with -O3 and all optional libraries, is scripts/test.sh. A row is built in
# build/matrix-ROW; a compiler cache shares between rows the files that an option does not change. Made for Debian 12.
# usage: scripts/matrix.sh [--clean] [ROW...]     the rows, or all; --clean removes a row's folder when it has passed
#        scripts/matrix.sh --list                 the rows, with a description of each
# TIDU_TEST_SCALE   by how much random tests are longer than usual, 0.1 by default
set -euo pipefail
cd "$(dirname "$0")/.."

# For each row: description | the preset | options of CMake.
declare -A rows=(
  [no-onednn]="without oneDNN|release|-DTIDU_ONEDNN=OFF"
  [no-lapack]="without LAPACK|release|-DTIDU_LAPACK=OFF"
  [no-lanes]="without vector code generated at run time|release|-DTIDU_LANES=OFF"
  [no-mpi]="without MPI|release|-DTIDU_MPI=OFF"
  [no-cuda]="without the CUDA executor|release|-DTIDU_CUDA=OFF"
  [bare]="without every optional dependency|release|-DTIDU_ONEDNN=OFF -DTIDU_LAPACK=OFF -DTIDU_LANES=OFF -DTIDU_MPI=OFF -DTIDU_CUDA=OFF"
  [gpu]="as scripts/gpu.sh builds on a machine with a GPU; needs the CUDA toolkit|gpu-machine|"
  [shared]="shared libraries|release|-DBUILD_SHARED_LIBS=ON"
  [unity]="several sources at a time, everywhere|release|-DCMAKE_UNITY_BUILD=ON"
  [dev]="g++ -O2 -g1, each source alone|dev|"
  [gcc-O0]="g++ -O0|release|-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0"
  [clang-14]="clang++ 14 -O1 -g1|clang|"
  [clang-16]="clang++ 16|release|-DCMAKE_CXX_COMPILER=clang++-16"
  [clang-19]="clang++ 19|release|-DCMAKE_CXX_COMPILER=clang++-19"
  [aarch64]="cross-compiled for aarch64, run by qemu|release|-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake"
)
order=(bare gpu no-onednn no-lapack no-lanes no-mpi no-cuda shared unity dev gcc-O0 clang-14 clang-16 clang-19 aarch64)

clean=0
chosen=()
for argument in "$@"; do
  case "$argument" in
    --clean) clean=1 ;;
    --list)
      for row in "${order[@]}"; do printf '%-10s  %s\n' "$row" "${rows[$row]%%|*}"; done
      exit ;;
    *)
      [ -n "${rows[$argument]:-}" ] || { echo "matrix.sh: expected one of ${order[*]}, got $argument" >&2; exit 2; }
      chosen+=("$argument") ;;
  esac
done
[ "${#chosen[@]}" -gt 0 ] || chosen=("${order[@]}")
export TIDU_TEST_SCALE=${TIDU_TEST_SCALE:-0.1}

# The packages of a row beside those of the tests.
install_for() {
  case "$1" in
    clang-*) scripts/deps.sh test "$1" ;;
    aarch64) scripts/deps.sh test aarch64 ;;
    *) scripts/deps.sh test ;;
  esac
}

has_cuda_toolkit() {
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]
}

# Builds libraries, command and tests, and runs the programs of the tests; no option changes examples or bench/.
run_native() {
  local folder=$1 preset=$2
  shift 2
  scripts/build.sh "$preset" -B "$folder" -DTIDU_BUILD_BENCH=OFF -DTIDU_BUILD_EXAMPLES=OFF "$@" && ctest --test-dir "$folder" -R '^test_' --output-on-failure --no-tests=error -j "$(nproc)"
}

# The modules whose code differs with the processor, and their dependences; headers of third parties come from a separate folder,
# since those in /usr/include are for this machine's processor.
run_aarch64() {
  local folder=$1 preset=$2 headers=$PWD/build/matrix-headers
  local tests=(test_graph test_linearize test_eager test_optimizer test_reference test_cpu test_cli)
  shift 2
  [ -d "$headers" ] || scripts/gpu.sh bundle "$headers" || return 1
  scripts/build.sh "$preset" -B "$folder" "$@" "-DCMAKE_FIND_ROOT_PATH=$headers" -DTIDU_MPI=OFF -DTIDU_CUDA=OFF -DTIDU_BUILD_BENCH=OFF \
    --target "${tests[@]}" tidu_command &&
    ctest --test-dir "$folder" -R "^($(IFS='|'; echo "${tests[*]}"))\$" --output-on-failure --no-tests=error -j "$(nproc)"
}

# Prints passed, failed or the reason for which a row cannot be run here.
run_row() {
  local row=$1 preset options way=run_native
  IFS='|' read -r _ preset options <<<"${rows[$row]}"
  if [ "$row" = gpu ] && ! has_cuda_toolkit; then
    outcome="left out: there is no CUDA toolkit here"
    return
  fi
  [ "$row" != aarch64 ] || way=run_aarch64
  read -ra options <<<"$options"
  if install_for "$row" && "$way" "build/matrix-$row" "$preset" "${options[@]}"; then
    outcome=passed
    [ "$clean" -eq 0 ] || rm -rf "build/matrix-$row"
  else
    outcome=failed
  fi
}

table=()
failed=0
for row in "${chosen[@]}"; do
  printf '\n== %s: %s\n' "$row" "${rows[$row]%%|*}"
  from=$SECONDS
  run_row "$row"
  [ "$outcome" != failed ] || failed=1
  table+=("$(printf '%-10s  %5d s  %s' "$row" "$((SECONDS - from))" "$outcome")")
done
printf '%s\n' '' "${table[@]}"
for row in "${order[@]}"; do
  [[ " ${chosen[*]} " = *" $row "* ]] || printf '%-10s  not run here: %s\n' "$row" "${rows[$row]%%|*}"
done
exit "$failed"
