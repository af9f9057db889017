#!/usr/bin/env bash
# Configures and builds a preset, with make where there is no ninja.
# usage: scripts/build.sh PRESET [-B FOLDER] [CMAKE-OPTION...] [--target TARGET...] [-- BUILD-OPTION...]     in build/PRESET, if not in FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
shift
folder=build/$preset
if [ "${1:-}" = -B ]; then
  folder=$2
  shift 2
fi
options=()
while [ "$#" -gt 0 ] && [ "$1" != --target ] && [ "$1" != -- ]; do
  options+=("$1")
  shift
done
command -v ninja >/dev/null || options+=(-G "Unix Makefiles")
# Compiler caches need not preprocess a file first: the options of its compilation determine its includes.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$PWD CCACHE_DEPEND=1
if ! log=$(cmake --preset "$preset" -B "$folder" "${options[@]}" 2>&1); then
  echo "$log" >&2
  exit 1
fi
grep -E '^-- tidu:|[Ww]arning' <<<"$log" || true
cmake --build "$folder" "$@"
