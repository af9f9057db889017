#!/usr/bin/env bash
# Runs scripts/bench.sh where what installs, builds and measures are stand-ins that say how they were called.
# usage: bench_script.sh FOLDER
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "$1"
mkdir -p "$1"/{tools,elsewhere,repository/scripts}
folder=$(cd "$1" && pwd)
cp "$source/scripts/bench.sh" "$folder/repository/scripts/"
make_tool() {
  cat >"$folder/$1"
  chmod +x "$folder/$1"
}
make_tool repository/scripts/deps.sh <<<'echo "deps.sh $*"'
make_tool repository/scripts/build.sh <<<'echo "build.sh $*"'
make_tool tools/some_python <<<''
make_tool tools/python3 <<'END_OF_TOOL'
#!/bin/sh
echo "python3 $*"
[ "$2" != venv ] || exit 1
END_OF_TOOL

# bench STATUS [VARIABLE=VALUE...] -- ARGUMENT...: called in the folder elsewhere
bench() {
  local wanted=$1 status=0 variables=()
  shift
  while [ "$1" != -- ]; do
    variables+=("$1")
    shift
  done
  (cd "$folder/elsewhere" && env "PATH=$folder/tools:$PATH" "${variables[@]}" ../repository/scripts/bench.sh "${@:2}") \
    >"$folder/said" 2>&1 || status=$?
  [ "$status" -eq "$wanted" ] || fail "status $wanted, got $status"
}
fail() {
  echo "bench_script.sh: expected $1; it says" >&2
  cat "$folder/said" >&2
  exit 1
}
says() { grep -qE -e "$1" "$folder/said" || fail "$1"; }

# It builds without the tests, whose packages it does not install.
bench 0 PEERS=none -- --quick
says '^deps.sh bench$'
says '^build.sh release -DTIDU_BUILD_TESTS=OFF --target tidu_workloads$'
says '/bench/run.py --program .*/build/release/bin/tidu_workloads --inputs .* --quick$'
bench 0 PEERS= --
says '^bench.sh: without PyTorch and JAX, as python3 cannot make an environment'

for python in some_python ../tools/some_python "$folder/tools/some_python"; do
  bench 0 "PEERS=$python" --
  says "run.py .* --peers $folder/(elsewhere/../)?tools/some_python "
done
for python in nowhere ../tools/nowhere ../tools cd; do
  bench 2 "PEERS=$python" --
  says "^bench.sh: expected PEERS to be none or a Python, got $python$"
done
