#!/usr/bin/env bash
# Runs the README's two commands, scripts/demo.sh and scripts/test.sh, in a new Debian made by debootstrap, from a clone of the
# last commit and nothing else, and again with nothing changed. Prints the times of all four. Packages come from the mirror that
# apt is set up with. Needs root (or sudo) and some 6 GB in build/fresh, which are removed afterwards.
# usage: scripts/fresh.sh [--keep] [bookworm|trixie]...     bookworm unless said; --keep leaves build/fresh/SUITE as it is at the end
set -euo pipefail
cd "$(dirname "$0")/.."

keep=0
suites=()
for argument in "$@"; do
  case "$argument" in
    --keep) keep=1 ;;
    bookworm | trixie) suites+=("$argument") ;;
    *) echo "fresh.sh: expected --keep, bookworm or trixie, got $argument" >&2; exit 2 ;;
  esac
done
[ "${#suites[@]}" -gt 0 ] || suites=(bookworm)

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)

# The address of this machine's mirror of Debian.
mirror() {
  apt-get indextargets --format '$(REPO_URI) $(ORIGIN)|$(LABEL)' | awk '$2 == "Debian|Debian" { print $1; exit }'
}

# Makes a Debian of suite $1 in folder $2, with the repository in /root/tidu.
make_machine() {
  local suite=$1 root=$2
  "${as_root[@]}" debootstrap --variant=minbase "$suite" "$root" "$(mirror)" >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; return 1; }
  "${as_root[@]}" cp /etc/resolv.conf "$root/etc/resolv.conf"
  apt-config dump Acquire | "${as_root[@]}" tee "$root/etc/apt/apt.conf.d/90host" >/dev/null
  "${as_root[@]}" git clone -q --no-hardlinks "$PWD" "$root/root/tidu"
}

# Runs a command of the clone in the Debian of folder $1, in namespaces of its own, so that no mount and no process outlives it.
inside() {
  local root=$1
  shift
  "${as_root[@]}" unshare --mount --pid --fork --propagation private bash -c '
    root=$1; shift
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/tmp"
    mount --rbind /dev "$root/dev"
    exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 chroot "$root" sh -c "cd /root/tidu && \"\$@\"" sh "$@"' \
    bash "$root" "$@"
}

command -v debootstrap >/dev/null || "${as_root[@]}" apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
failed=0
times=()
for suite in "${suites[@]}"; do
  root=$PWD/build/fresh/$suite
  "${as_root[@]}" rm -rf "$root"
  mkdir -p "${root%/*}"
  printf '\n== A new Debian, %s\n' "$suite"
  make_machine "$suite" "$root"
  for round in "from nothing" "again"; do
    for command in scripts/demo.sh scripts/test.sh; do
      printf '\n== %s, %s, %s\n' "$suite" "$command" "$round"
      from=$SECONDS
      status=0
      inside "$root" "$command" || status=$?
      times+=("$(printf '%s  %-16s  %-12s  %4d s  %s' "$suite" "$command" "$round" "$((SECONDS - from))" \
        "$([ "$status" -eq 0 ] && echo passed || echo "failed with status $status")")")
      [ "$status" -eq 0 ] || failed=1
    done
  done
  [ "$keep" -eq 1 ] || "${as_root[@]}" rm -rf "$root"
done
printf '%s\n' '' "${times[@]}"
exit "$failed"
