#!/usr/bin/env bash
# Builds and runs on a machine with an NVIDIA GPU what proves and measures the CUDA executor there, within ten minutes, and prints
# one table. Needs the CUDA toolkit, CMake, make or ninja, a compiler and Python, for the benchmarks NumPy, PyTorch and JAX as far
# as they are to be measured beside. No part stops another; what was built and made for a part is kept for the next call.
# usage: scripts/gpu.sh [PART...]            there; all parts, or these:
#          build       what the others run; done in any case where it is not there. What does not compile is left out
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
# TIDU_GPU_SECONDS  when to stop, if not after 570: what does not fit is left out, the table says so, and the exit status is 1
# TIDU_GPU_LOGS     where results go, if not to build/gpu: table.txt, benchmarks.json, details.json, and all logs in logs.tar.gz, four
#                   files that are there after each part
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
  includes=$(grep -rhoE '#include <boost/[^>]+>' include src backends tests tools examples bench | sort -u)
  for compiler in g++ clang++-14; do
    command -v "$compiler" >/dev/null || continue
    "$compiler" -std=c++20 -M -x c++ - <<<"$includes"$'\n#include <boost/version.hpp>' | tr ' \\' '\n\n' |
      grep "^$from/include/boost/" || return 1
  done | sort -u | sed "s|^$from/include/||" | (cd $from/include && xargs cp --parents -t "$to/include") || return 1
  # What another compiler would choose instead.
  (cd $from/include && cp -r --parents boost/config boost/predef boost/predef.h -t "$to/include") || return 1
  # Of libraries that are not in every toolkit what is declared.
  mkdir -p "$to/cuda"
  (cd "${CUDA_HOME:-/usr/local/cuda}/include" && cp -rL nccl* cudnn*.h cublas*.h cusolver*.h cusparse*.h nvrtc.h "$to/cuda/") 2>/dev/null
  bytes=$(du -sb "$to" | cut -f1)
  echo "$to: $((bytes >> 20)) MiB"
  [ "$bytes" -le "$most" ] || { echo "gpu.sh: expected at most $((most >> 20)) MiB, got $((bytes >> 20))" >&2; return 1; }
}

prefix=$(realpath -m "${TIDU_GPU_PREFIX:-build/gpu-prefix}")
if [ "${1:-}" = bundle ]; then
  gather "$(realpath -m "${2:-$prefix}")"
  exit
fi

# gpu.sh each SECONDS SHARES PROGRAM [COMMAND...]: a process for each test case "this machine NN: ..." of the program, and for each of
# so many shares of the conformance cases, all at once, behind the command if there is one: one that ends its process, or never ends,
# is alone. What they say comes in order.
if [ "${1:-}" = each ]; then
  limit=$2 shares=$3 program=$4
  shift 4
  said=$(mktemp -d) names=() pids=() status=0
  begin() {  # NAME SHARE FILTER
    names+=("$1")
    TIDU_TEST_SHARD=$2 timeout -k 5 "$limit" "${command[@]}" "$program" -tc="$3" >"$said/${#names[@]}" 2>&1 &
    pids+=($!)
  }
  tell() {
    local k
    for ((k = 1; k <= ${#names[@]}; ++k)); do
      cat "$said/$k"
      [ ! -f "$said/$k.end" ] || cat "$said/$k.end"
    done
    rm -rf "$said"
  }
  interrupted() {
    trap '' TERM INT
    local k
    for k in "${!pids[@]}"; do
      if kill "${pids[$k]}" 2>/dev/null; then echo "ERROR: ${names[$k]} had not ended when time was over" >"$said/$((k + 1)).end"; fi
    done
    tell
    exit 124
  }
  trap interrupted TERM INT
  command=("$@")
  for number in $("$program" -ltc -tc='this machine *' | sed -nE 's/^this machine ([0-9]+):.*/\1/p'); do
    begin "this machine $number" 0/1 "this machine $number*"
  done
  for ((share = 0; share < shares; ++share)); do
    begin "share $share of the conformance cases" "$share/$shares" "*Conformance cases on this machine*"
  done
  [ "${#names[@]}" -gt 0 ] || { echo "ERROR: $program lists no test case"; exit 1; }
  for k in "${!pids[@]}"; do
    wait "${pids[$k]}"
    case "$?" in
      0) continue ;;
      124 | 137) echo "ERROR: ${names[$k]} did not end within $limit s" >"$said/$((k + 1)).end" ;;
      *) grep -q '^TEST CASE:' "$said/$((k + 1))" || echo "ERROR: ${names[$k]} failed" >"$said/$((k + 1)).end" ;;
    esac
    status=1
  done
  tell
  exit "$status"
fi
known=(build basics tests benchmarks command cudnn memcheck racecheck)
parts=("$@")
[ "$#" -gt 0 ] || parts=("${known[@]}")
for part in "${parts[@]}"; do
  [[ " ${known[*]} " = *" $part "* ]] || { echo "gpu.sh: expected parts among ${known[*]}, got $part" >&2; exit 1; }
done
wants() { [[ " ${parts[*]} " = *" $1 "* ]]; }

if ! command -v nvidia-smi >/dev/null || [[ "$(nvidia-smi -L)" != *GPU* ]]; then
  echo "gpu.sh: expected a machine with an NVIDIA GPU, found none" >&2
  exit 1
fi
export PATH=$PATH:/usr/local/cuda/bin CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
kept=$PWD/build/gpu results=$(realpath -m "${TIDU_GPU_LOGS:-build/gpu}") seconds=${TIDU_GPU_SECONDS:-570}
python=${TIDU_GPU_PYTHON:-python3} bin=build/gpu-machine/bin logs=$kept/logs
export TIDU_KERNEL_CACHE=$kept/kernels TIDU_TEST_DEVICE=1
mkdir -p "$kept" "$results" "$logs"
rm -rf "${logs:?}"/*
programs=(test_cuda test_cli tidu tidu_workloads)
for program in "${programs[@]}"; do
  [ -x "$bin/$program" ] || [[ " ${parts[*]} " = *" build "* ]] || parts=(build "${parts[@]}")
done
rows=()
failed=0
left() { echo $((seconds - SECONDS)); }
least() { echo $(($1 < $2 ? $1 : $2)); }

# What there is so far: the table, and the beginnings and ends of logs.
table() {
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
  printf '%s\n' "${rows[@]}"
  [ ! -f "$logs/benchmarks.0.log" ] || sed -n '/^workload /,$p' "$logs/benchmarks.0.log"
  [ ! -f "$logs/cudnn.0.log" ] || sed -n 's/^convnet /convnet by cuDNN /p' "$logs/cudnn.0.log"
}
deliver() {
  local log sent=$kept/sent
  rm -rf "$sent"
  mkdir -p "$sent/logs"
  for log in "$logs"/*.log; do
    if [ "$(stat -c %s "$log")" -gt 1000000 ]; then
      { head -c 600000 "$log"; printf '\n[...]\n'; tail -c 300000 "$log"; } >"$sent/logs/${log##*/}"
    else
      cp "$log" "$sent/logs/"
    fi
  done
  tar -C "$sent" -czf "$sent/logs.tar.gz" logs && mv "$sent/logs.tar.gz" "$results/logs.tar.gz"
  table >"$results/table.txt"
}
finish() {
  echo "---"
  deliver
  cat "$results/table.txt"
  exit "$failed"
}
interrupted() {
  trap '' TERM INT
  failed=1
  jobs -p | xargs -r kill 2>/dev/null
  finish
}
trap interrupted TERM INT

# One row of the table, which is told at once too: NAME OUTCOME SECONDS WORDS.
enter() {
  rows+=("$(printf '%-11s %-14s %4d s  %s' "$@")")
  echo "${rows[-1]}"
}

# What a part's logs say in a line, and, of one that failed, the first words of what did.
summary() {
  # "... ERROR SUMMARY: N errors", "... RACECHECK SUMMARY: N hazards displayed (...)"
  sed -nE 's/.*(ERROR|RACECHECK) SUMMARY: ([0-9]+).*/\2/p' "$logs/$1".*log |
    awk '{ all += $1 } END { if (NR) print all " findings in " NR " processes," }'
  grep -hE '^\[doctest\] assertions' "$logs/$1".*log | tr -d '|' |
    awk '{ all += $3; bad += $6 } END { if (NR) print all " assertions, " bad " failed" }'
}
# The most frequent lines with their counts, of equally frequent ones the first.
frequent() { awk '{ if (!n[$0]++) at[$0] = NR } END { for (line in n) printf "%6d %d %s\n", n[line], at[line], line }' | sort -k1,1nr -k2,2n | head -n "$1" | sed -E 's/^( *[0-9]+) [0-9]+/\1/'; }
explain() {
  echo "--- $1: what failed, how often"
  # Test cases by name, then messages.
  grep -hE '^TEST CASE:' "$logs/$1".*log | frequent 15
  grep -hE '(ERROR|RACECHECK) SUMMARY: 0' -v "$logs/$1".*log | grep -E 'ERROR|Error|error:|cuda[A-Z][A-Za-z]+|CUDA|failed to run|Killed|Terminated' | cut -c1-200 | frequent 16
}

# part NAME SECONDS PROGRAM COMMAND...: runs a command for so long at most, as long as there is time, keeps what it says, and enters
# it in the table; leaves it out where the program was not built. `split` before the command: in a process for each core, which takes
# its share of the cases (TIDU_TEST_SHARD).
part() {
  local name=$1 program=$3 limit count=1 from=$SECONDS bad=0 slow=0 k status pids=() outcome=passed
  limit=$(least "$2" "$(left)")
  shift 3
  wants "$name" || return 0
  if [ "$program" != - ] && [ ! -x "$bin/$program" ]; then
    enter "$name" "left out" 0 "$program was not built"
    failed=1
    return 1
  fi
  if [ "$limit" -lt 10 ]; then
    enter "$name" "left out" 0 "the time was over"
    failed=1
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
  deliver
  [ $((bad + slow)) -eq 0 ]
}

# What this machine is, should it be what others look for.
{
  nvidia-smi
  nvcc --version
  cmake --version
  c++ --version
  "$python" --version
  "$python" -c 'import importlib.metadata as m; print(*sorted(f"{d.name} {d.version}" for d in m.distributions()), sep="\n")'
} >"$logs/machine.log" 2>&1

architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d '. ')
options=("-DTIDU_CUDA_ARCHITECTURE=sm_${architecture:-90}")
if [ -d "$prefix" ]; then
  options+=("-DCMAKE_PREFIX_PATH=$prefix")
  export CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$prefix/cuda
fi
# All is tried to build, so that a program which cannot be is the only one that is missing.
going_on=(-k)
! command -v ninja >/dev/null || going_on=(-k 0)

# Libraries that came with PyTorch do where the toolkit has none of the kind; cuDNN is in few toolkits.
with_python=$("$python" -c 'import nvidia, pathlib
print(":".join(sorted({str(f.parent) for path in nvidia.__path__ for f in pathlib.Path(path).glob("*/lib/lib*.so*")})))' 2>/dev/null)
for library in cublasLt cusolver nvrtc; do
  compgen -G "/usr/local/cuda/lib64/lib$library.so*" >/dev/null && continue
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$with_python
  break
done

if wants benchmarks || wants cudnn; then  # the inputs of the benchmarks meanwhile
  timeout 300 "$python" -B -c "import sys; sys.path.insert(0, 'bench'); import inputs, run
for name in run.DEVICE: inputs.write('$kept/inputs', name)" >"$logs/inputs.log" 2>&1 &
  writer=$!
fi
bench=("$python" -B bench/run.py --program "$bin/tidu_workloads" --device cuda --quick --inputs "$kept/inputs" --cache "$kept/cache")

if wants build && [ "$(left)" -ge 10 ]; then rm -f "${programs[@]/#/$bin/}"; fi  # none of an older source
if ! part build 400 - scripts/build.sh gpu-machine "${options[@]}" --target test_cuda test_cli tidu_command tidu_workloads -- "${going_on[@]}" &&
  [ -f "$logs/build.0.log" ]; then
  grep -hE -A 5 'error|Error|FAILED' "$logs/build.0.log" | cut -c1-300 | head -n 40
  tail -n 10 "$logs/build.0.log"
fi
part basics 100 test_cuda scripts/gpu.sh each 60 0 "$bin/test_cuda"
part tests 130 test_cuda split "$bin/test_cuda" -tc='*Conformance cases on this machine*,every element-wise*,NaN*,conver*,select_n*,constants,shapes:*,reductions*,logsumexp*,a long sum*,argmax*,an empty extent*,sort*,dynamic slices*,indexing*,dot_general*,sliding*,convolutions in*,convolutions that take*,convolutions drawn*,convolutions on*,random*,folds*,scans*,updates*,transpositions*,products on*,linear algebra*,what linear algebra*,a product takes*,softmax*,ADBench*,conformance programs*'
if wants benchmarks || wants cudnn; then wait "$writer"; fi
limit=$(($(least 190 "$(left)") - 50))
part benchmarks 190 tidu_workloads "${bench[@]}" --peers "$python" --limit "$((limit > 1 ? limit : 1))" --json "$results/benchmarks.json" \
  --details "$results/details.json"
part command 110 test_cli split env TIDU_TEST_BACKEND=cuda "$bin/test_cli" -tc='every conformance case*'
part cudnn 40 tidu_workloads env TIDU_CONVOLUTIONS=cudnn "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$with_python" "${bench[@]}" --only convnet
for tool in memcheck racecheck; do
  if wants "$tool" && ! command -v compute-sanitizer >/dev/null; then
    enter "$tool" "left out" 0 "there is no compute-sanitizer"
    continue
  fi
  part "$tool" 90 test_cuda env TIDU_TEST_SCALE=0.1 scripts/gpu.sh each 85 "$(nproc)" "$bin/test_cuda" \
    compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9
done
finish
