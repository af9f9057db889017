#!/usr/bin/env bash
# Builds and runs on a machine with an NVIDIA GPU what proves and measures the CUDA executor there, within ten minutes, and prints
# one table. Needs the CUDA toolkit, CMake, make or ninja, a compiler and Python, for the benchmarks NumPy, PyTorch and JAX as far
# as they are to be measured beside. No part stops another; what was built and made for a part is kept for the next call.
# usage: scripts/gpu.sh [PART...]            there; all parts, or these:
#          build       what the others run, which are left out where it fails
#          basics      copies, kernels, libraries, captures, streams one by one: the first that fails says most
#          tests       every operation and dtype, whole graphs, conformance cases with gradients, in a process for each core
#          benchmarks  beside PyTorch and JAX, quick ones
#          command     every conformance case by the command: derivatives of all kinds, against numbers of JAX
#          cudnn       convolutions by cuDNN, to compare with
#          memcheck, racecheck    basics and a sample of the conformance cases under compute-sanitizer
#        scripts/gpu.sh bundle [FOLDER]      before, where scripts/deps.sh test was run: gathers in FOLDER (build/gpu-prefix) the
#                                            headers of the other dependencies, for machines that have none of them
# TIDU_GPU_PREFIX   the folder that was gathered, if not build/gpu-prefix
# TIDU_GPU_PYTHON   the Python that has PyTorch and JAX, if not python3
# TIDU_GPU_SECONDS  when to stop, if not after 570: what does not fit is left out, and the table says so
# TIDU_GPU_LOGS     where logs and results go, if not to build/gpu
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

# Copies a package's headers and what CMake finds it by; of Boost, which is large, what the project's own includes lead to.
gather() {
  local to=$1 most=$((64 << 20)) from=/usr bytes includes
  rm -rf "$to"
  mkdir -p "$to/include/eigen3" "$to/share/cmake" "$to/share/eigen3" "$to/lib/cmake"
  cp -r $from/include/eigen3/Eigen $from/include/eigen3/signature_of_eigen3_matrix_library "$to/include/eigen3/" &&
    cp -r $from/include/nlohmann $from/include/doctest $from/include/xbyak "$to/include/" &&
    cp -r $from/share/eigen3/cmake "$to/share/eigen3/" && cp -r $from/share/cmake/nlohmann_json "$to/share/cmake/" &&
    cp -r $from/lib/cmake/doctest "$to/lib/cmake/" || return 1
  includes=$(grep -rhoE '#include <boost/[^>]+>' include src tests tools examples bench | sort -u)
  for compiler in g++ clang++-14; do
    command -v "$compiler" >/dev/null || continue
    "$compiler" -std=c++20 -M -x c++ - <<<"$includes"$'\n#include <boost/version.hpp>' | tr ' \\' '\n\n' |
      grep "^$from/include/boost/" || return 1
  done | sort -u | sed "s|^$from/include/||" | (cd $from/include && xargs cp --parents -t "$to/include") || return 1
  # What another compiler would choose instead.
  (cd $from/include && cp -r --parents boost/config boost/predef boost/predef.h -t "$to/include") || return 1
  # Of NCCL and cuDNN, which are not in every toolkit, what is declared.
  mkdir -p "$to/cuda"
  cp -L "${CUDA_HOME:-/usr/local/cuda}"/include/{nccl,cudnn}*.h "$to/cuda/" 2>/dev/null
  bytes=$(du -sb "$to" | cut -f1)
  echo "$to: $((bytes >> 20)) MiB"
  [ "$bytes" -le "$most" ] || { echo "gpu.sh: expected at most $((most >> 20)) MiB, got $((bytes >> 20))" >&2; return 1; }
}

prefix=$(realpath -m "${TIDU_GPU_PREFIX:-build/gpu-prefix}")
if [ "${1:-}" = bundle ]; then
  gather "$(realpath -m "${2:-$prefix}")"
  exit
fi

# A process for each of a program's test cases "this machine NN: ...", so that one that ends its process, or never ends, is alone.
if [ "${1:-}" = each ]; then
  status=0
  for number in $("$2" -ltc -tc='this machine *' | sed -nE 's/^this machine ([0-9]+):.*/\1/p'); do
    timeout -k 5 30 "$2" -tc="this machine $number*"
    case "$?" in
      0) ;;
      124 | 137) status=1; echo "ERROR: this machine $number did not end within 30 s" ;;
      *) status=1; echo "ERROR: this machine $number failed" ;;
    esac
  done
  exit "$status"
fi
known=(build basics tests benchmarks command cudnn memcheck racecheck)
parts=("$@")
[ "$#" -gt 0 ] || parts=("${known[@]}")
for part in "${parts[@]}"; do
  [[ " ${known[*]} " = *" $part "* ]] || { echo "gpu.sh: expected parts among ${known[*]}, got $part" >&2; exit 1; }
done
wants() { [[ " ${parts[*]} " = *" $1 "* ]]; }

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L | grep -q GPU; then
  echo "gpu.sh: expected a machine with an NVIDIA GPU, found none" >&2
  exit 1
fi
export PATH=$PATH:/usr/local/cuda/bin CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
kept=$PWD/build/gpu logs=$(realpath -m "${TIDU_GPU_LOGS:-build/gpu}") seconds=${TIDU_GPU_SECONDS:-570}
python=${TIDU_GPU_PYTHON:-python3} bin=build/cuda/bin
export TIDU_KERNEL_CACHE=$kept/kernels TIDU_TEST_DEVICE=1
mkdir -p "$kept" "$logs"
rm -f "$logs"/*.log
rows=()
failed=0
left() { echo $((seconds - SECONDS)); }
least() { echo $(($1 < $2 ? $1 : $2)); }

# One row of the table, which is told at once too: NAME OUTCOME SECONDS WORDS.
enter() {
  rows+=("$(printf '%-11s %-14s %4d s  %s' "$@")")
  echo "${rows[-1]}"
}

# What a part's logs say in a line, and, of one that failed, the first words of what did.
summary() {
  grep -hE 'ERROR SUMMARY|RACECHECK SUMMARY' "$logs/$1".*log | tail -n 1
  grep -hE '^\[doctest\] assertions' "$logs/$1".*log | tr -d '|' |
    awk '{ all += $3; bad += $6 } END { if (NR) print all " assertions, " bad " failed" }'
}
explain() {
  echo "--- $1: what failed, how often"
  # Test cases by name, then messages without their numbers.
  grep -hE '^TEST CASE:' "$logs/$1".*log | sort | uniq -c | sort -rn | head -n 15
  grep -hE 'ERROR|Error|error:|cuda[A-Z][A-Za-z]+|CUDA|failed to run|Killed|Terminated' "$logs/$1".*log | cut -c1-200 | sort | uniq -c | sort -rn | head -n 12
}

# part NAME SECONDS COMMAND...: runs a command for so long at most, as long as there is time, keeps what it says, and enters it in
# the table. `split` before the command: in a process for each core, which takes its share of the cases (TIDU_TEST_SHARD).
part() {
  local name=$1 limit count=1 from=$SECONDS bad=0 slow=0 k status pids=() outcome=passed
  limit=$(least "$2" "$(left)")
  shift 2
  wants "$name" || return 0
  if [ "$limit" -lt 10 ]; then
    enter "$name" "left out" 0 "the time was over"
    return 1
  fi
  if [ "$1" = split ]; then
    count=$(nproc)
    shift
  fi
  for ((k = 0; k < count; ++k)); do
    if [ "$count" -gt 1 ]; then export TIDU_TEST_SHARD=$k/$count; fi
    # By lines, so that what was said is there when time is over.
    timeout -k 5 "$limit" stdbuf -oL "$@" >"$logs/$name.$k.log" 2>&1 &
    pids+=($!)
  done
  unset TIDU_TEST_SHARD
  for k in "${pids[@]}"; do
    wait "$k"
    status=$?
    case "$status" in
      0) ;;
      124 | 137) slow=$((slow + 1)) ;;
      *) bad=$((bad + 1)) ;;
    esac
  done
  if [ "$slow" -gt 0 ]; then outcome="too long"; fi
  if [ "$bad" -gt 0 ]; then outcome="failed"; fi
  if [ "$count" -gt 1 ] && [ $((bad + slow)) -gt 0 ]; then outcome+=" $((bad + slow))/$count"; fi
  enter "$name" "$outcome" "$((SECONDS - from))" "$(summary "$name" 2>/dev/null | paste -sd ' ')"
  if [ $((bad + slow)) -gt 0 ]; then
    failed=1
    explain "$name"
  fi
  [ $((bad + slow)) -eq 0 ]
}

architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d '. ')
options=("-DTIDU_CUDA_ARCHITECTURE=sm_$architecture" -DTIDU_WERROR=OFF -DTIDU_INSTALL=OFF -DTIDU_MPI=OFF -DTIDU_ONEDNN=OFF)
if [ -d "$prefix" ]; then
  options+=("-DCMAKE_PREFIX_PATH=$prefix")
  export CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$prefix/cuda
fi
if wants benchmarks || wants cudnn; then  # the inputs of the benchmarks meanwhile
  "$python" -B -c "import sys; sys.path.insert(0, 'bench'); import inputs, run
for name in run.DEVICE: inputs.write('$kept/inputs', name)" >"$logs/inputs.log" 2>&1 &
  writer=$!
fi
bench=("$python" -B bench/run.py --program "$bin/tidu_workloads" --device cuda --quick --inputs "$kept/inputs" --cache "$kept/cache")
# cuDNN is not in every toolkit; that which came with PyTorch will do.
cudnn=$("$python" -c "import importlib.util as u; print(u.find_spec('nvidia.cudnn').submodule_search_locations[0] + '/lib')" 2>/dev/null)

if part build 400 scripts/build.sh cuda "${options[@]}" --target test_cuda test_cli tidu_command tidu_workloads; then
  part basics 120 scripts/gpu.sh each "$bin/test_cuda"
  part tests 130 split "$bin/test_cuda" -tc='*Conformance cases on this machine*,every element-wise*,NaN*,conver*,select_n*,constants,shapes:*,reductions*,logsumexp*,a long sum*,argmax*,an empty extent*,sort*,dynamic slices*,indexing*,dot_general*,sliding*,convolutions in*,convolutions that take*,convolutions drawn*,convolutions on*,random*,folds*,scans*,updates*,transpositions*,products on*,linear algebra*,what linear algebra*,a product takes*,softmax*,ADBench*,conformance programs*'
  if wants benchmarks || wants cudnn; then wait "$writer"; fi
  part benchmarks 190 "${bench[@]}" --peers "$python" --limit $(($(least 190 "$(left)") - 50)) --json "$logs/benchmarks.json" \
    --details "$logs/details.json"
  part command 110 split env TIDU_TEST_BACKEND=cuda "$bin/test_cli" -tc='every conformance case*'
  part cudnn 40 env TIDU_CONVOLUTIONS=cudnn LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:$cudnn:/usr/local/cuda/lib64" "${bench[@]}" --only convnet
  for tool in memcheck racecheck; do
    if wants "$tool" && ! command -v compute-sanitizer >/dev/null; then
      enter "$tool" "left out" 0 "there is no compute-sanitizer"
      continue
    fi
    part "$tool" 90 env TIDU_TEST_SCALE=0.1 compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 \
      "$bin/test_cuda" -tc='*this machine*'
  done
else
  tail -n 20 "$logs/build.0.log"
fi
{
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
  printf '%s\n' "${rows[@]}"
  [ ! -f "$logs/benchmarks.0.log" ] || sed -n '/^workload /,$p' "$logs/benchmarks.0.log"
  [ ! -f "$logs/cudnn.0.log" ] || sed -n 's/^convnet /convnet by cuDNN /p' "$logs/cudnn.0.log"
} | tee "$logs/table.txt"
exit "$failed"
