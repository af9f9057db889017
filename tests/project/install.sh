#!/usr/bin/env bash
# Installs tidu as README.md and docs/abi.md say it, but in a folder that is given, and runs the command that was installed.
# usage: install.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1
rm -rf "$folder"

scripts/deps.sh build
cmake --preset release -DTIDU_BUILD_TESTS=OFF
cmake --build build/release --target tidu_installed
DESTDIR=$folder cmake --install build/release
"$folder"/usr/local/bin/tidu ops >/dev/null
DESTDIR=$folder/prefix cmake --install build/release --prefix /opt/tidu
"$folder"/prefix/opt/tidu/bin/tidu ops >/dev/null
