#!/usr/bin/env bash
# Runs fuzz targets (fuzz/) by libFuzzer, each for a bounded time, and keeps the inputs that reach new code, minimised.
#
#   scripts/attack/fuzz.sh [TARGET ...]                 all of: orders plans captures records pages command_lines control model sim
#   scripts/attack/fuzz.sh unpack|pack [TARGET ...]     the corpora alone, all that there are
#
# Needs nightly Rust and zstd; not cargo-fuzz, whose flags these are. SECONDS_EACH=3600; AT_ONCE=2. CARGO_TARGET_DIR says where it is built,
# SEEDS a directory of further inputs (SEEDS/TARGET/*). Priority is that of idle time. The corpus is fuzz/corpus/TARGET, unpacked
# from its archive, fuzz/corpus/TARGET.tar.zst, before the run and packed after it (only archives are tracked: commit it; the same inputs make the
# same archive); what crashed lies in fuzz/artifacts/TARGET, the logs in LOGS (fuzz/artifacts). Exit 1: a target crashed.
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

# SQLite has a static array of one name twice, which is no fault.
export ASAN_OPTIONS=detect_odr_violation=0

build() {
    local flags=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
        -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address
        --cfg fuzzing -Cdebug-assertions -Cdebuginfo=line-tables-only)
    RUSTFLAGS="${flags[*]}" cargo +nightly build --release --locked --target x86_64-unknown-linux-gnu -j "${JOBS:-2}" --bin targets
}

# One target: what it finds goes to a directory of its own, from which the corpus is minimised.
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
    # A scope of threads is over before they have given back their thread-local memory, which is no leak.
    local leaks=1
    case $target in orders | control) leaks=0 ;; esac
    chrt -i 0 "$built" "-max_total_time=$each_s" -rss_limit_mb=2048 -timeout=600 -max_len=65536 -print_final_stats=1 "-detect_leaks=$leaks" \
        "-artifact_prefix=artifacts/$target/" "${dict[@]}" "$found" "corpus/$target" "${seeds[@]}" >"$logs/$target.log" 2>&1 || code=$?
    local merged
    merged=$(mktemp -d)
    # Large inputs say little that small ones do not: they are not kept.
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
