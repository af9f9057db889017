#!/usr/bin/env bash
# Measures tidu beside PyTorch and JAX, where pip can install them, and bounds written by hand; prints a table of ratios with the
# goals and draws it. bench/README.md describes the workloads and the method of measurement.
# usage: scripts/bench.sh [--quick] [--json OUT] [OPTION-OF-bench/run.py...]
# Its picture and all that was measured are left in build/bench. PEERS=none leaves PyTorch and JAX out; PEERS=PYTHON takes them from
# there, a command or the path of one.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
root=$PWD
out=$root/build/bench

# The interpreter that PEERS names, a relative path from where the script was called; none ends the script.
if [ -n "${PEERS:-}" ] && [ "$PEERS" != none ]; then
  named=$PEERS
  PEERS=$(cd "$here" && command -v "$named") || PEERS=$named
  [[ "$PEERS" = /* ]] || PEERS=$here/$PEERS
  [ -f "$PEERS" ] && [ -x "$PEERS" ] || { echo "bench.sh: expected PEERS to be none or a Python, got $named" >&2; exit 2; }
fi

# Puts JAX and PyTorch into an environment of their own, if pip can install them; prints one line for each that it cannot.
install_peers() {
  local python=$out/peers/bin/python missing=()
  if [ ! -x "$python" ] && ! python3 -m venv "$out/peers" >"$out/pip.log" 2>&1; then
    echo "bench.sh: without PyTorch and JAX, as python3 cannot make an environment for them (build/bench/pip.log)" >&2
    rm -rf "$out/peers"
    return
  fi
  for package in jax torch; do
    "$python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$package') is None)" && continue
    "$python" -m pip install --quiet --retries 1 "$package" >>"$out/pip.log" 2>&1 || missing+=("$package")
  done
  [ "${#missing[@]}" -eq 0 ] || echo "bench.sh: without ${missing[*]}, which pip could not install (build/bench/pip.log)" >&2
}

scripts/deps.sh bench
scripts/build.sh release -DTIDU_BUILD_TESTS=OFF --target tidu_workloads
mkdir -p "$out"
peers=${PEERS:-$out/peers/bin/python}
[ -n "${PEERS:-}" ] || install_peers
options=()
[ "$peers" = none ] || [ ! -x "$peers" ] || options=(--peers "$peers")
cd "$here"  # OUT is relative to it
exec python3 -B "$root/bench/run.py" --program "$root/build/release/bin/tidu_workloads" "${options[@]}" --inputs "$out/inputs" \
  --cache "$out/cache" --details "$out/details.json" --picture "$out/ratios.svg" "$@"
