#!/usr/bin/env bash
# Makes the reference of the public headers with Doxygen, and fails on its first warning: every public declaration has a comment.
# usage: scripts/reference.sh [FOLDER]    FOLDER/html/index.html is the result; build/reference by default
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-build/reference}
if ! command -v doxygen >/dev/null; then
  echo "reference.sh: doxygen is not installed; scripts/deps.sh ci installs it" >&2
  exit 77
fi
version=$(sed -n 's/^#define TIDU_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' include/tidu/version.hpp | paste -sd .)
mkdir -p "$out"
{
  cat docs/Doxyfile
  printf 'PROJECT_NUMBER = %s\nOUTPUT_DIRECTORY = "%s"\n' "$version" "$out"
} | doxygen -
# Links of the pages to files of the repository, which Doxygen leaves as they are.
root=$(realpath --relative-to="$out/html" .)
sed -Ei "s#href=\"(\.\./)?(backends|bench|examples|scripts|src|tests)([/\"])#href=\"$root/\2\3#g" "$out"/html/{index,md_*}.html
echo "$out/html/index.html"
