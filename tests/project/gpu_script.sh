#!/usr/bin/env bash
# Runs scripts/gpu.sh where nvidia-smi, the build and the programs are stand-ins: what fails, ends its process or never ends loses
# itself alone, and results are four files, however many processes there were.
# usage: gpu_script.sh FOLDER
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$1
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
  -L) echo "GPU 0: a stand-in" ;;
  *compute_cap*) echo 9.0 ;;
  *) echo "a stand-in, 1.2.3, 100 MiB" ;;
esac
END
make_tool tools/nproc <<'END'
#!/bin/sh
echo 3
END
make_tool tools/compute-sanitizer <<'END'
#!/bin/bash
while [[ $1 == --* ]]; do
  case $1 in --tool | --report-api-errors | --error-exitcode) shift ;; esac
  shift
done
"$@"
status=$?
echo "========= ERROR SUMMARY: 2 errors"
exit $status
END
# Builds all but what $MISSING names.
make_tool repository/scripts/build.sh <<'END'
#!/bin/bash
bin=build/gpu-machine/bin
mkdir -p $bin
for program in test_cuda test_cli tidu tidu_workloads; do
  [ "$program" = "${MISSING:-}" ] || { cp scripts/program.sh $bin/$program; chmod +x $bin/$program; }
done
[ -z "${MISSING:-}" ] || { echo "some.cpp:3: error: no such thing"; exit 1; }
END
# Of three cases the second never ends, and the third ends its process. What each share says is a log that is cut.
make_tool repository/scripts/program.sh <<'END'
#!/bin/bash
case "$*" in
  *-ltc*) printf 'this machine %s: a case\n' 01 02 03 ;;
  *'machine 02'*) [ -z "${HANGS:-}" ] || exec sleep 1000 ;;
  *'machine 03'*) [ -z "${DIES:-}" ] || kill -SEGV $$ ;;
  *Conformance*) head -c 2000000 /dev/zero | tr '\0' 'x' && echo ;;
esac
echo "[doctest] assertions: 5 | 5 passed | 0 failed |"
END
cat >"$folder/repository/bench/run.py" <<'END'
import pathlib, sys
DEVICE = []
if __name__ == "__main__":
    for option in ("--json", "--details"):
        if option in sys.argv:
            pathlib.Path(sys.argv[sys.argv.index(option) + 1]).write_text("[]")
    print("workload  threads")
    print("convnet 8")
END
echo 'def write(*_): pass' >"$folder/repository/bench/inputs.py"

cd "$folder/repository"
run() { env PATH="$folder/tools:$PATH" TIDU_GPU_LOGS="$folder/out" "$@" >"$folder/said" 2>&1; }
# fails COMMAND...: it runs and has to fail; "! run" would pass either way, as set -e does not look at it.
fails() {
  run "$@" || return 0
  echo "gpu_script.sh: expected to fail: $*; it says" >&2
  cat "$folder/said" >&2
  exit 1
}
expect() {
  grep -qE "$1" "${2:-$folder/out/table.txt}" && return
  echo "gpu_script.sh: expected $1 in ${2:-the table}, got" >&2
  cat "${2:-$folder/out/table.txt}" "$folder/said" >&2
  exit 1
}

run scripts/gpu.sh build basics tests benchmarks command cudnn || { cat "$folder/said"; exit 1; }
expect '^basics +passed .* 15 assertions, 0 failed'
expect '^tests +passed .* 15 assertions'
expect '^convnet by cuDNN 8'
[ "$(cd "$folder/out" && echo *)" = "benchmarks.json details.json logs.tar.gz table.txt" ]
tar -tzf "$folder/out/logs.tar.gz" >"$folder/listed"
expect logs/tests.2.log "$folder/listed"

# Built anew where it is not there; what does not compile is the only one that is left out.
rm -rf build
fails env MISSING=test_cli DIES=1 scripts/gpu.sh basics command memcheck
expect '^build +failed'
expect '^basics +failed .* 10 assertions'
expect 'this machine 03 failed' "$folder/said"
expect '^command +left out .* test_cli was not built'
expect '^memcheck +failed .* 12 findings in 6 processes, 25 assertions'
tar -xzOf "$folder/out/logs.tar.gz" logs/memcheck.0.log >"$folder/cut"
grep -q '^\[\.\.\.\]$' "$folder/cut"

run scripts/gpu.sh build
fails env TIDU_GPU_SECONDS=0 scripts/gpu.sh basics
expect '^basics +left out .* the time was over'
fails env HANGS=1 scripts/gpu.sh each 1 0 scripts/program.sh
expect 'ERROR: this machine 02 did not end within 1 s' "$folder/said"
expect '5 passed' "$folder/said"
