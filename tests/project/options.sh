#!/usr/bin/env bash
# Configures a project that has tidu's options alone, with values that have to be understood and others that have to be refused; and
# with CUDA toolkits, stand-ins, that are as they have to be or not.
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
for word in ON on Yes true Y 1; do says 'TIDU_CUDA is ON' "-DTIDU_CUDA=$word"; done
accepts 'TIDU_CUDA is AUTO' -DTIDU_CUDA=auto
refuses 'TIDU_CUDA: expected AUTO, ON or OFF, got "12.8"' -DTIDU_CUDA=12.8
refuses 'TIDU_CUDA: expected AUTO, ON or OFF, got ""' -DTIDU_CUDA=

# toolkit VERSION PARTS: what is there
toolkit() {
  there=("-DFOUND_VERSION=$1" "-DFOUND_PARTS=$2")
}
toolkit 12.8.61 'nvcc;cudart_static'
accepts 'TIDU_WITH_CUDA is ON' "${there[@]}"
accepts 'TIDU_WITH_CUDA is ON' "${there[@]}" -DTIDU_CUDA=ON
accepts 'TIDU_WITH_CUDA is OFF' "${there[@]}" -DTIDU_CUDA=OFF
# absent VERSION PARTS WORDS: left out with these words, or refused with them where it is required.
absent() {
  toolkit "$1" "$2"
  accepts "tidu: no CUDA toolkit of 12.8 or newer here ($3), so tidu::cuda is not built" "${there[@]}"
  accepts 'TIDU_WITH_CUDA is OFF' "${there[@]}"
  refuses "tidu: expected the CUDA toolkit, 12.8 or newer, as TIDU_CUDA is ON; found $3" "${there[@]}" -DTIDU_CUDA=ON
}
absent '' '' none
absent 11.8.89 'nvcc;cudart_static' 11.8.89
absent 12.6.0 'nvcc;cudart_static' 12.6.0
absent 13.0.1 cudart_static '13.0.1 without nvcc'
absent 13.0.1 nvcc '13.0.1 without libcudart_static'
