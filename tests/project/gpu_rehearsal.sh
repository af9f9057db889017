#!/usr/bin/env bash
# Rehearses scripts/gpu.sh where there is no GPU: the tests that it runs are those of the executor above a CUDA platform in host memory,
# nvidia-smi and compute-sanitizer are stand-ins, and what is not a test of the device is not there. Its table has to say so.
# usage: gpu_rehearsal.sh TEST_CUDA_PLATFORM FOLDER
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
program=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"/{tools,repository/scripts,repository/bench}
cp "$source/scripts/gpu.sh" "$folder/repository/scripts/"
make_tool() {
  cat >"$folder/$1"
  chmod +x "$folder/$1"
}
make_tool tools/nvidia-smi <<'END'
#!/bin/sh
case "$*" in
  -L) echo "GPU 0: a platform in host memory" ;;
  *compute_cap*) echo 9.0 ;;
  *) echo "a platform in host memory, 0, 4096 MiB" ;;
esac
END
make_tool tools/compute-sanitizer <<'END'
#!/bin/bash
while [[ $1 == --* ]]; do
  case $1 in --tool | --report-api-errors | --error-exitcode) shift ;; esac
  shift
done
"$@"
status=$?
echo "========= ERROR SUMMARY: 0 errors"
exit $status
END
make_tool repository/scripts/build.sh <<END
#!/bin/sh
mkdir -p build/gpu-machine/bin
ln -sf "$program" build/gpu-machine/bin/test_cuda
END

cd "$folder/repository"
status=0
env PATH="$folder/tools:$PATH" TIDU_GPU_LOGS="$folder/out" TIDU_TEST_SCALE=0.05 scripts/gpu.sh build basics tests memcheck command \
  >"$folder/said" 2>&1 || status=$?
expect() {
  grep -qE "$1" "$folder/out/table.txt" && return
  echo "gpu_rehearsal.sh: expected $1 in the table, got" >&2
  cat "$folder/out/table.txt" "$folder/said" >&2
  exit 1
}
expect '^build +passed'
expect '^basics +passed .* [0-9]{3,} assertions, 0 failed'
expect '^tests +passed .* [0-9]{2,} assertions, 0 failed'
expect '^memcheck +passed .* 0 findings in [0-9]+ processes, [0-9]{3,} assertions, 0 failed'
expect '^command +left out .* test_cli was not built'
[ "$status" -eq 1 ] || { echo "gpu_rehearsal.sh: expected status 1 where a part was left out, got $status" >&2; exit 1; }
