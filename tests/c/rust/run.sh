#!/usr/bin/env bash
# Builds and runs the Rust program of this folder, which calls the C interface; no crates but its own.
# usage: run.sh LIBRARY-FOLDER FOLDER CARGO    FOLDER is for what it builds. Exit status 77, and a line that says so, without a toolchain.
set -euo pipefail
libraries=$(cd "$1" && pwd) out=$2 cargo=$3
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -x "$cargo" ] || ! "$cargo" --version >/dev/null 2>&1; then
  echo "SKIPPED: no Rust toolchain here, so the C interface is NOT TESTED FROM RUST" >&2
  exit 77
fi
mkdir -p "$out/crate"  # a copy, beside which cargo puts its lock
cp "$here"/Cargo.toml "$here"/*.rs "$out/crate/"
export TIDU_LIBRARIES=$libraries CARGO_TARGET_DIR=$out/target LD_LIBRARY_PATH=$libraries
"$cargo" run --offline --quiet --manifest-path "$out/crate/Cargo.toml"
