#!/usr/bin/env bash
# Builds and runs on a machine with an NVIDIA GPU what proves the CUDA executor there: its tests, the same under
# compute-sanitizer; prints one table. Needs the CUDA toolkit, CMake, a compiler and what the build needs (scripts/deps.sh build, or
# the folders of headers and libraries in $TIDU_GPU_PREFIX).
# usage: scripts/gpu.sh [--tests-only]
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L | grep -q GPU; then
  echo "gpu.sh: expected a machine with an NVIDIA GPU, found none" >&2
  exit 1
fi
log=build/gpu
mkdir -p "$log"
rows=()
failed=0

# Runs a command, keeps what it says, and enters it in the table.
row() {
  local name=$1 from=$SECONDS status=0
  shift
  "$@" >"$log/$name.log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || failed=1
  rows+=("$(printf '%-24s %-8s %5d s  %s' "$name" "$([ "$status" -eq 0 ] && echo passed || echo "failed $status")" \
    "$((SECONDS - from))" "$(tail -n 3 "$log/$name.log" | grep -E 'assertions|ERROR SUMMARY|median' | tail -n 1)")")
}

options=(-DTIDU_BUILD_EXAMPLES=OFF)
[ -z "${TIDU_GPU_PREFIX:-}" ] || options+=("-DCMAKE_PREFIX_PATH=$TIDU_GPU_PREFIX")
row build scripts/build.sh cuda "${options[@]}" --target test_cuda --target test_cli --target tidu_command
bin=build/cuda/bin
on_device=(-tc='*this machine*')
row device_tests "$bin/test_cuda" "${on_device[@]}"
row command "$bin/test_cli" -tc='every conformance case*'
if [ "${1:-}" != --tests-only ] && command -v compute-sanitizer >/dev/null; then
  row memcheck compute-sanitizer --tool memcheck --error-exitcode 9 "$bin/test_cuda" "${on_device[@]}"
  row racecheck compute-sanitizer --tool racecheck --error-exitcode 9 "$bin/test_cuda" "${on_device[@]}"
fi
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
printf '%s\n' "${rows[@]}"
exit "$failed"
