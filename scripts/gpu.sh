#!/usr/bin/env bash
# Builds and runs on a machine with an NVIDIA GPU what proves and measures the CUDA executor there: its tests, the same under
# compute-sanitizer, its benchmarks beside PyTorch and JAX; prints one table, within ten minutes. Needs the CUDA toolkit, CMake,
# make or ninja, a compiler and Python, for the benchmarks NumPy, PyTorch and JAX as far as they are to be measured beside.
# usage: scripts/gpu.sh [--tests-only]      there
#        scripts/gpu.sh bundle [FOLDER]     before, where scripts/deps.sh test was run: gathers in FOLDER (build/gpu-prefix) the
#                                           headers of the other dependencies, for machines that have none of them
# TIDU_GPU_PREFIX   the folder that was gathered, if not build/gpu-prefix
# TIDU_GPU_PYTHON   the Python that has PyTorch and JAX, if not python3
# TIDU_GPU_SECONDS  when to stop, if not after 590: what does not fit is left out, and the table says so
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

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L | grep -q GPU; then
  echo "gpu.sh: expected a machine with an NVIDIA GPU, found none" >&2
  exit 1
fi
export PATH=$PATH:/usr/local/cuda/bin CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
log=build/gpu limit=${TIDU_GPU_SECONDS:-590} python=${TIDU_GPU_PYTHON:-python3}
mkdir -p "$log"
rm -f "$log"/*.log
rows=()
failed=0
left() { echo $((limit - SECONDS)); }

# Runs a command as long as there is time, keeps what it says, and enters it in the table.
row() {
  local name=$1 from=$SECONDS status=0 outcome=passed
  shift
  if [ "$(left)" -lt 10 ]; then
    rows+=("$(printf '%-16s left out: the time was over' "$name")")
    return
  fi
  timeout "$(left)" "$@" >"$log/$name.log" 2>&1 || status=$?
  case "$status" in
    0) ;;
    124) outcome="too long" ;;
    *) outcome="failed $status" ;;
  esac
  [ "$status" -eq 0 ] || failed=1
  rows+=("$(printf '%-16s %-9s %4d s  %s' "$name" "$outcome" "$((SECONDS - from))" \
    "$(tail -n 3 "$log/$name.log" | grep -E 'assertions|ERROR SUMMARY|RACECHECK SUMMARY|goals' | tail -n 1)")")
  return "$status"
}

architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d '. ')
options=("-DTIDU_CUDA_ARCHITECTURE=sm_$architecture" -DTIDU_INSTALL=OFF -DTIDU_MPI=OFF -DTIDU_ONEDNN=OFF)
if [ -d "$prefix" ]; then
  options+=("-DCMAKE_PREFIX_PATH=$prefix")
  export CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$prefix/cuda
fi
targets=(test_cuda test_cli tidu_command)
if [ "${1:-}" != --tests-only ]; then
  targets+=(tidu_workloads)
  # The inputs of the benchmarks meanwhile.
  "$python" -B -c "import sys; sys.path.insert(0, 'bench'); import inputs, run
for name in run.DEVICE: inputs.write('$log/inputs', name)" >"$log/inputs.log" 2>&1 &
fi
bin=build/cuda/bin
on_device=(-tc='*this machine*')
if row build scripts/build.sh cuda "${options[@]}" --target "${targets[@]}"; then
  row device_tests "$bin/test_cuda" "${on_device[@]}"
  row command "$bin/test_cli" -tc='every conformance case*'
  if [ "${1:-}" != --tests-only ]; then
    wait
    row benchmarks "$python" -B bench/run.py --program "$bin/tidu_workloads" --peers "$python" --device cuda --quick \
      --limit $(($(left) - 60)) --inputs "$log/inputs" --cache "$log/cache" --json "$log/benchmarks.json" \
      --details "$log/details.json"
    # The same convolutions by cuDNN, to compare with.
    row cudnn env TIDU_CONVOLUTIONS=cudnn "$python" -B bench/run.py --program "$bin/tidu_workloads" --device cuda --quick \
      --only convnet --inputs "$log/inputs" --cache "$log/cache"
    if command -v compute-sanitizer >/dev/null; then
      for tool in memcheck racecheck; do  # a tenth of the cases each
        row "$tool" env TIDU_TEST_SCALE=0.1 compute-sanitizer --tool "$tool" --error-exitcode 9 "$bin/test_cuda" "${on_device[@]}"
      done
    fi
  fi
else
  tail -n 20 "$log/build.log" >&2
fi
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
printf '%s\n' "${rows[@]}"
[ ! -f "$log/benchmarks.log" ] || sed -n '/^workload /,$p' "$log/benchmarks.log"
[ ! -f "$log/cudnn.log" ] || sed -n 's/^convnet /convnet by cuDNN /p' "$log/cudnn.log"
exit "$failed"
