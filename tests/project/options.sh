#!/usr/bin/env bash
# Configures a project that has tidu's options alone, with values that have to be understood and others that have to be refused.
# usage: options.sh FOLDER
set -euo pipefail
source=$(cd "$(dirname "$0")" && pwd)/options
folder=$1
rm -rf "$folder"
mkdir -p "$folder"

# says WORDS OPTION...: configured with these options the project says so, in a line or over several.
says() {
  local words=$1
  shift
  rm -rf "$folder/build"
  status=0
  cmake -S "$source" -B "$folder/build" "$@" >"$folder/said" 2>&1 || status=$?
  tr -s ' \n' ' ' <"$folder/said" | grep -qF -e "$words" && return
  echo "options.sh: $*: expected $words, got" >&2
  cat "$folder/said" >&2
  exit 1
}
accepts() {
  says "$@"
  [ "$status" -eq 0 ] || { echo "options.sh: ${*:2}: expected to be configured, got status $status" >&2; exit 1; }
}
refuses() {
  says "$@"
  [ "$status" -ne 0 ] || { echo "options.sh: ${*:2}: expected to be refused, was configured" >&2; exit 1; }
}

accepts 'TIDU_CUDA is AUTO'
for word in OFF off Off NO false 0 n; do accepts 'TIDU_CUDA is OFF' "-DTIDU_CUDA=$word"; done
for word in ON on Yes true Y 1; do accepts 'TIDU_CUDA is ON' "-DTIDU_CUDA=$word"; done
accepts 'TIDU_CUDA is AUTO' -DTIDU_CUDA=auto
refuses 'TIDU_CUDA: expected AUTO, ON or OFF, got "12.8"' -DTIDU_CUDA=12.8
refuses 'TIDU_CUDA: expected AUTO, ON or OFF, got ""' -DTIDU_CUDA=
