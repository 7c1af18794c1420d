#!/usr/bin/env bash
# Runs fuzz targets (fuzz/) with libFuzzer, each for a limited time, and adds the inputs that reach new code to the
# corpus, which is then minimised.
#
#   scripts/attack/fuzz.sh [TARGET ...]               default: orders plans captures records pages command_lines control
#                                                     model sim
#   scripts/attack/fuzz.sh unpack|pack [TARGET ...]   only unpacks or packs the corpora (default: all that exist)
#
# Needs nightly Rust and zstd. cargo-fuzz is not needed: the script sets the same compiler flags. Environment variables:
# SECONDS_EACH (3600) is the time per target, AT_ONCE (2) the number of targets at the same time, CARGO_TARGET_DIR the
# build directory, SEEDS a directory of further inputs (SEEDS/TARGET/*), LOGS (fuzz/artifacts) the directory of the
# logs. Targets run at idle priority.
#
# The corpus fuzz/corpus/TARGET is unpacked from the archive fuzz/corpus/TARGET.tar.zst before the run and packed after
# it. Only the archives are tracked by git: commit them. Equal inputs give an identical archive. Inputs that crash are
# written to fuzz/artifacts/TARGET. Exit code 1: a target crashed.
set -euo pipefail
cd "$(dirname "$0")/../../fuzz"

unpack() {
    [ -f "corpus/$1.tar.zst" ] || { echo "no fuzz/corpus/$1.tar.zst: the corpus of $1 begins empty" >&2 && return 0; }
    mkdir -p "corpus/$1"
    zstd -qdc "corpus/$1.tar.zst" | tar -xf - -C "corpus/$1"
}

pack() {
    [ -n "$(find "corpus/$1" -type f -print -quit)" ] || { echo "no inputs in fuzz/corpus/$1: nothing to pack" >&2 && return 1; }
    (cd "corpus/$1" && find . -type f -printf '%P\0' | LC_ALL=C sort -z |
        tar -c --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 --mode=644 --null -T -) |
        zstd -q -19 -T1 -fo "corpus/$1.tar.zst"
}

case ${1:-} in
unpack | pack)
    what=$1
    shift
    targets=("$@")
    if [ $# -eq 0 ] && [ "$what" = unpack ]; then
        for archive in corpus/*.tar.zst; do targets+=("$(basename "$archive" .tar.zst)"); done
    elif [ $# -eq 0 ]; then
        for directory in corpus/*/; do targets+=("$(basename "$directory")"); done
    fi
    for target in "${targets[@]}"; do "$what" "$target"; done
    exit
    ;;
esac

all=(orders plans captures records pages command_lines control model sim)
targets=("$@")
[ $# -gt 0 ] || targets=("${all[@]}")
for target in "${targets[@]}"; do
    [[ " ${all[*]} " == *" $target "* ]] || { echo "fuzz.sh: no target $target: expected one of ${all[*]}" >&2; exit 2; }
done
each_s=${SECONDS_EACH:-3600}
at_once=${AT_ONCE:-2}
built=${CARGO_TARGET_DIR:-$PWD/target}/x86_64-unknown-linux-gnu/release/targets
logs=${LOGS:-$PWD/artifacts}

# SQLite defines two static arrays under one name, which is no error.
export ASAN_OPTIONS=detect_odr_violation=0

build() {
    local flags=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
        -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address
        --cfg fuzzing -Cdebug-assertions -Cdebuginfo=line-tables-only)
    RUSTFLAGS="${flags[*]}" cargo +nightly build --release --locked --target x86_64-unknown-linux-gnu -j "${JOBS:-2}" --bin targets
}

# Runs one target. New inputs go to a separate directory, from which the corpus is minimised.
fuzz() {
    local target=$1 found code=0
    export NETCLIFF_FUZZ=$target
    found=$logs/$target/found
    mkdir -p "corpus/$target" "artifacts/$target" "$found"
    unpack "$target"
    local seeds=()
    [ ! -d "${SEEDS:-}/$target" ] || seeds=("$SEEDS/$target")
    local dict=()
    [ ! -f "dictionaries/$target" ] || dict=("-dict=dictionaries/$target")
    # A thread scope can end before its threads have freed their thread-local memory. That is no leak.
    local leaks=1
    case $target in orders | control) leaks=0 ;; esac
    chrt -i 0 "$built" "-max_total_time=$each_s" -rss_limit_mb=2048 -timeout=600 -max_len=65536 -print_final_stats=1 "-detect_leaks=$leaks" \
        "-artifact_prefix=artifacts/$target/" "${dict[@]}" "$found" "corpus/$target" "${seeds[@]}" >"$logs/$target.log" 2>&1 || code=$?
    local merged
    merged=$(mktemp -d)
    # Large inputs are left out, because they hardly test more than small ones.
    chrt -i 0 "$built" -merge=1 -rss_limit_mb=2048 -timeout=600 -max_len=8192 "$merged" "$found" "corpus/$target" "${seeds[@]}" \
        >"$logs/$target.merge.log" 2>&1 || code=$?
    rm -rf "corpus/$target"
    mv "$merged" "corpus/$target"
    pack "$target" || code=$?
    rm -rf "$found"
    grep -E '^#[0-9]+.*DONE|stat::number_of_executed_units' "$logs/$target.log" | sed "s/^/$target: /" || true
    echo "$target: exit $code, corpus of $(find "corpus/$target" -type f | wc -l) inputs"
    return "$code"
}

build
mkdir -p "$logs"
failed=0
running=()
for target in "${targets[@]}"; do
    fuzz "$target" &
    running+=($!)
    if [ "${#running[@]}" -ge "$at_once" ]; then
        wait "${running[0]}" || failed=1
        running=("${running[@]:1}")
    fi
done
for pid in "${running[@]}"; do wait "$pid" || failed=1; done
exit $failed
