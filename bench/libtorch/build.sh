#!/usr/bin/env bash
# Builds tidu_bench_libtorch against the torch package that pip installs; quick when nothing changed.
# usage: bench/libtorch/build.sh      needs python3-venv in addition to the packages of scripts/deps.sh test
# All files go to build/libtorch, 1.3 GB. Of torch's requirements only the two small libraries are installed that its library for
# CPUs is linked with, none of those for GPUs or for Python.
set -euo pipefail
cd "$(dirname "$0")/../.."

torch=2.15.0
build=build/libtorch
venv=$build/venv

if [ "$(cat "$venv/installed" 2>/dev/null)" != "$torch" ]; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --no-deps "torch==$torch"
  # torch's own requirement, for instance cuda-toolkit[cublas,cudart,cupti]==13.2.2, cut down to the two libraries; pip
  # then says which others torch misses.
  cuda=$(sed -nE 's/^Requires-Dist: cuda-toolkit\[[^]]*\] *(==[0-9.]+).*/\1/p' \
    "$venv"/lib/python3*/site-packages/torch-*.dist-info/METADATA)
  "$venv/bin/pip" install --quiet "cuda-toolkit[cudart,cupti]$cuda" 2>"$build/pip.log" ||
    { cat "$build/pip.log" >&2; exit 1; }
  echo "$torch" >"$venv/installed"
fi

site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cmake -S bench/libtorch -B "$build" -G Ninja -DTIDU_TORCH="$site/torch" >"$build/configure.log" 2>&1 ||
  { cat "$build/configure.log" >&2; exit 1; }
cmake --build "$build"
echo "run: $build/bin/tidu_bench_libtorch [--benchmark_filter=REGEX] [--benchmark_repetitions=N]"
