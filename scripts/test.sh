#!/usr/bin/env bash
# test.sh [check|test|measure]: runs the checks of the project in named steps (default: test). All steps run, even after
# a failure, unless Cargo.lock is stale: in that case no step would test the committed state.
#   check    during development: format, clippy, tests that need neither privileges nor namespaces
#   test     to accept a change: check, scripts, licences, documentation, testbeds, a part of the grids, the browser if
#            the page has changed
#   measure  before a release: paced tests, whole grids, the browsers, Python, BSD
# Ends with the list of skipped tests and steps, and two lines: "steps: N passed, N failed, N skipped", and the same for
# tests. Exit code 1: a step failed.
# STEP_TIMEOUT_S limits the time of each step [s], so that a hanging step is named. NETCLIFF_REQUIRE=all (or names of
# needs, such as programs,netns,ebpf,xdp,uring) turns a skip for lack of these needs into a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh
find_cargo || {
    echo "cargo $(required_rust) or newer not found; run: make setup" >&2
    exit 1
}

# In CI with clang, eBPF programs that do not compile are an error (elsewhere a warning).
if [[ "${CI:-}" == true ]] && ebpf_wanted && ebpf_buildable; then
    export NETCLIFF_REQUIRE_BPF=1
fi

step_timeout_s="${STEP_TIMEOUT_S:-1800}"
log="$(mktemp)"
collected="$(mktemp)"
running=""
passed=0
failed=0
skipped=0
failures=()
tests_passed=0
tests_failed=0
# Tests add a line for each need that is missing (crates/testkit), and so do scripts that skip a part
# (scripts/lib/skip.sh).
NETCLIFF_SKIPPED_FILE="$(mktemp)"
export NETCLIFF_SKIPPED_FILE

# timeout puts the step in a separate process group, so Ctrl-C must be passed on to it.
interrupted() {
    [[ -z "$running" ]] || kill -TERM "$running" 2>/dev/null || true
    exit 130
}
trap interrupted INT TERM
trap 'rm -rf "$log" "$collected" "$NETCLIFF_SKIPPED_FILE" ${memory:+"$memory"}' EXIT

# Hundreds of tests create trees of small files. In memory they take a third of the time on a disk. 4 GiB are far more
# than they use. If the caller set TMPDIR, it is not changed.
memory=""
use_memory() {
    [[ -z "${TMPDIR:-}" && "$(stat -f -c %T /dev/shm 2>/dev/null)" == tmpfs ]] || return 0
    (($(stat -f -c '%a * %S' /dev/shm) >= 4 << 30)) || return 0
    memory="$(mktemp -d /dev/shm/netcliff-test.XXXXXX)"
    # The mode of /tmp: programs that tests run as another user find their files there.
    chmod 1777 "$memory"
    # Tests run programs that they wrote, so a file system that is mounted with noexec is not used.
    cp /bin/true "$memory/true"
    ! "$memory/true" 2>/dev/null || export TMPDIR="$memory"
}

# skip NAME REASON: records a step as skipped.
skip() {
    printf '=== %s\nSKIPPED: %s: %s\n' "$1" "$1" "$2"
    echo "SKIPPED: $1: $2" >>"$collected"
    skipped=$((skipped + 1))
}

# step NAME COMMAND...: runs the command, shows its output, counts the result.
step() {
    local name="$1" status=0 start_s="$SECONDS"
    shift
    printf '=== %s\n' "$name"
    timeout --kill-after=10 "$step_timeout_s" "$@" >"$log" 2>&1 </dev/null &
    running=$!
    # The output is shown in the background: a signal handler of this script runs only after a foreground command has
    # ended, but interrupts `wait`.
    tail -n +1 -f -s 0.2 --pid="$running" "$log" &
    shown=$!
    wait "$running" || status=$?
    wait "$shown" || true
    running=""
    count_tests
    if [[ "$status" == 0 ]]; then
        printf -- '--- %s: passed, %d s\n' "$name" "$((SECONDS - start_s))"
        passed=$((passed + 1))
        return
    fi
    [[ "$status" != 124 ]] || echo "stopped after $step_timeout_s s (STEP_TIMEOUT_S)"
    printf -- '--- %s: FAILED (exit %d), %d s\n' "$name" "$status" "$((SECONDS - start_s))"
    failed=$((failed + 1))
    failures+=("$name")
}

# Adds the numbers of tests in the log of a step: the last summary of cargo-nextest, and each summary of `cargo test`.
count_tests() {
    local passed_here failed_here
    read -r passed_here failed_here < <(awk '
        function before(word,    i) { for (i = 2; i <= NF; i++) if ($i ~ "^" word) return $(i - 1); return 0 }
        /^ *Summary \[/ { nextest_passed = before("passed"); nextest_failed = before("failed") + before("timed") }
        /^test result: / { passed += before("passed"); failed += before("failed") }
        END { print passed + nextest_passed, failed + nextest_failed }' "$log")
    tests_passed=$((tests_passed + passed_here))
    tests_failed=$((tests_failed + failed_here))
}

cargo() { scripts/cargo.sh "$@"; }

# Fails if Cargo.lock does not fit the manifests. Also downloads the packages that later steps need.
check_lockfile() {
    step "lock file" scripts/cargo.sh fetch --locked
    # The fuzz targets are a separate workspace, which the other steps do not build.
    step "lock file of fuzz/" scripts/cargo.sh fetch --locked --manifest-path fuzz/Cargo.toml
}

check_scripts() {
    if command -v shellcheck >/dev/null; then
        step "shell scripts" shellcheck -x .ci/run scripts/*.sh scripts/lib/*.sh scripts/checks/*.sh scripts/dist/*.sh \
            scripts/review/*.sh packaging/*.sh
    else
        skip "shell scripts" "shellcheck is not installed"
    fi
    step "units of the packages" scripts/checks/units.sh
}

check_deny() {
    if ! deny_installed; then
        skip "cargo-deny" "cargo-deny is not installed and could not be (licences are checked above)"
        return
    fi
    step "licences, bans, sources (cargo-deny)" scripts/cargo.sh deny --locked check licenses bans sources
    if scripts/cargo.sh deny --locked fetch db >/dev/null 2>&1; then
        step "advisories (cargo-deny)" scripts/cargo.sh deny --locked check advisories
    else
        skip "advisories (cargo-deny)" "the advisory database cannot be fetched from this machine"
    fi
}

# Warnings are errors, except those of a clippy that is newer than the version that was last checked to find nothing.
check_clippy() {
    local -a deny=(-D warnings)
    if ! version_at_least "$(checked_rust)" "$(cargo_version "$CARGO")"; then
        echo "clippy of Rust $(cargo_version "$CARGO") is newer than that of $(checked_rust): its warnings do not fail"
        deny=()
    fi
    step "clippy" scripts/cargo.sh clippy --workspace --all-targets --locked -- "${deny[@]}"
    # The variants with and without eBPF must offer the same interface. A build of the workspace contains only one of
    # them.
    step "host without eBPF" scripts/cargo.sh check --locked --no-default-features -p netcliff-host
}

check_wasm() {
    if wasm_target_installed; then
        step "wasm32 build of core, model, sim, wasm" scripts/cargo.sh check --locked \
            -p netcliff-core -p netcliff-model -p netcliff-sim -p netcliff-wasm --target wasm32-unknown-unknown
    else
        skip "wasm32 build of core, model, sim, wasm" "the target wasm32-unknown-unknown is not installed"
    fi
}

# Runs the page in a browser; exit code 77 of the script means skipped. `changed`: only if the page or the code that
# answers it has changed since this last passed.
check_web() {
    local reason status=0 before="$failed"
    if [[ "${1:-}" == changed ]] && scripts/measured.sh web; then
        skip "the explorer in a browser" "the page and what answers it are as it last passed with (scripts/measured.txt); make measure runs it"
        return
    fi
    reason="$(scripts/checks/web.sh --needs)" || status=$?
    if [[ "$status" == 77 ]]; then
        skip "the explorer in a browser" "$reason"
    else
        step "the explorer in a browser" scripts/checks/web.sh
        [[ "$failed" != "$before" ]] || scripts/measured.sh web --record
    fi
}

# Runs the tests of the Python package; exit code 77 of the script means skipped.
check_python() {
    local reason status=0
    # The wheel compiles parts of the program again. That takes four minutes, which is too long for every run of CI.
    if [[ -z "${NETCLIFF_PYTHON:-}" ]]; then
        skip "the Python package" "NETCLIFF_PYTHON=1 runs its tests (ten minutes and more)"
        return
    fi
    reason="$(scripts/checks/python.sh --needs)" || status=$?
    if [[ "$status" == 77 ]]; then
        skip "the Python package" "$reason"
    else
        step "the Python package" scripts/checks/python.sh
    fi
}

summary() {
    local name tests_skipped
    echo
    sort -u "$collected" "$NETCLIFF_SKIPPED_FILE"
    for name in "${failures[@]}"; do
        echo "FAILED: $name"
    done
    # A test that lacks several needs or skips several parts counts once. If a need is required, the test has failed
    # instead. Lines of scripts are left out, because they belong to parts of steps.
    tests_skipped="$(sed -n '/^SKIPPED: scripts\//d; s/^SKIPPED: \([^:]*\(::[^:]\+\)*\): .*/\1/p' "$NETCLIFF_SKIPPED_FILE" | sort -u | wc -l)"
    echo "total time: $SECONDS s"
    echo "steps: $passed passed, $failed failed, $skipped skipped"
    echo "tests: $((tests_passed - tests_skipped)) passed, $tests_failed failed, $tests_skipped skipped"
    [[ "$failed" == 0 ]]
}

check_lockfile
if [[ "$failed" != 0 ]]; then
    echo "Cargo.lock (or fuzz/Cargo.lock) does not fit the manifests: run 'cargo update --workspace' there and commit it; the other steps did not run"
    summary
    exit
fi
tier="${1:-test}"

# tests PROFILE: runs the tests of a profile of .config/nextest.toml.
tests() { step "tests" scripts/cargo.sh nextest run --workspace --locked --no-fail-fast --color never --profile "$1"; }

case "$tier" in
check)
    unset NETCLIFF_REQUIRE
    step "format" scripts/cargo.sh fmt --all --check
    check_clippy
    use_memory
    tests check
    ;;
test)
    step "format" scripts/cargo.sh fmt --all --check
    check_scripts
    step "crates: arrows only downwards, no cycle" scripts/checks/arrows.sh
    step "dependencies are justified" scripts/checks/dependencies.sh
    step "licences" scripts/checks/licences.sh
    check_deny
    check_clippy
    step "documentation" env RUSTDOCFLAGS="-D warnings" scripts/cargo.sh doc --workspace --no-deps --locked
    use_memory
    # If the code that measures has changed since the paced tests last passed, they run again (scripts/measured.sh).
    if scripts/measured.sh wire; then
        tests default
    else
        before="$failed"
        tests paced
        [[ "$failed" != "$before" ]] || scripts/measured.sh wire --record
    fi
    step "documentation tests" scripts/cargo.sh test --workspace --doc --locked --no-fail-fast
    check_wasm
    check_web changed
    ;;
measure)
    export NETCLIFF_GRID=whole NETCLIFF_PYTHON=1
    use_memory
    tests measure
    check_web
    check_python
    step "fuzz targets" scripts/cargo.sh check --locked --manifest-path fuzz/Cargo.toml
    step "BSD" scripts/checks/bsd.sh
    [[ "$failed" != 0 ]] || scripts/measured.sh wire --record
    ;;
*)
    echo "test.sh: $tier is no tier; expected check, test or measure" >&2
    exit 2
    ;;
esac
summary
