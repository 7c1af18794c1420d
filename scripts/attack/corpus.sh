#!/usr/bin/env bash
# Unpacks the archives of fuzz inputs, fuzz/corpus/TARGET.tar.zst, into directories fuzz/corpus/TARGET, or packs those again.
#
#   scripts/attack/corpus.sh unpack|pack [TARGET ...]     all targets that there are
#
# Only archives are tracked. The same inputs make the same archive.
set -euo pipefail
cd "$(dirname "$0")/../../fuzz/corpus"

usage="usage: scripts/attack/corpus.sh unpack|pack [TARGET ...]"
what=${1:?$usage}
shift
targets=("$@")

unpack() {
    [ -f "$1.tar.zst" ] || { echo "no fuzz/corpus/$1.tar.zst: the corpus of $1 begins empty" >&2 && return 0; }
    mkdir -p "$1"
    zstd -qdc "$1.tar.zst" | tar -xf - -C "$1"
}

pack() {
    [ -n "$(find "$1" -type f -print -quit)" ] || { echo "no inputs in fuzz/corpus/$1: nothing to pack" >&2 && return 1; }
    (cd "$1" && find . -type f -printf '%P\0' | LC_ALL=C sort -z |
        tar -c --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 --mode=644 --null -T -) | zstd -q -19 -T1 -fo "$1.tar.zst"
}

case $what in
unpack) [ $# -gt 0 ] || for archive in *.tar.zst; do targets+=("${archive%.tar.zst}"); done ;;
pack) [ $# -gt 0 ] || for directory in */; do targets+=("${directory%/}"); done ;;
*) echo "$usage" >&2 && exit 2 ;;
esac
for target in "${targets[@]}"; do "$what" "$target"; done
