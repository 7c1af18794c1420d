#!/usr/bin/env bash
# test.sh: every check of the project, in named steps. All steps run, also after a failure, unless Cargo.lock is
# stale: then no step would test what is committed. Ends with what was skipped and one line
# "N passed, N failed, N skipped" that counts steps; exit 1 when a step failed.
# STEP_TIMEOUT_S bounds each step [s], so that a hang has a name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh
find_cargo || {
    echo "cargo $(required_rust) or newer not found; run: make setup" >&2
    exit 1
}

# Where clang is there, CI does not accept eBPF programs that fail to compile (elsewhere that is a warning).
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

# The step runs in a process group of its own (timeout makes it), so Ctrl-C has to be passed on.
interrupted() {
    [[ -z "$running" ]] || kill -TERM "$running" 2>/dev/null || true
    exit 130
}
trap interrupted INT TERM
trap 'rm -f "$log" "$collected"' EXIT

# skip NAME REASON
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
    tail -n +1 -f -s 0.2 --pid="$running" "$log" || true
    wait "$running" || status=$?
    running=""
    { grep -h '^SKIPPED: ' "$log" || true; } >>"$collected"
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

cargo() { scripts/cargo.sh "$@"; }

# Fails when Cargo.lock does not fit the manifests; also downloads what the later steps need.
check_lockfile() { step "lock file" scripts/cargo.sh fetch --locked; }

check_scripts() {
    if command -v shellcheck >/dev/null; then
        step "shell scripts" shellcheck -x .ci/run scripts/*.sh scripts/lib/*.sh scripts/checks/*.sh
    else
        skip "shell scripts" "shellcheck is not installed"
    fi
}

check_deny() {
    if ! cargo deny --version >/dev/null 2>&1; then
        skip "cargo-deny" "cargo-deny is not installed (make deny installs it; licences are checked above)"
        return
    fi
    step "licences, bans, sources (cargo-deny)" scripts/cargo.sh deny --locked check licenses bans sources
    if cargo deny --locked fetch db >/dev/null 2>&1; then
        step "advisories (cargo-deny)" scripts/cargo.sh deny --locked check advisories
    else
        skip "advisories (cargo-deny)" "the advisory database cannot be fetched from this machine"
    fi
}

check_wasm() {
    if wasm_target_installed; then
        step "wasm32 build of core, model, sim" scripts/cargo.sh build --locked \
            -p netcliff-core -p netcliff-model -p netcliff-sim --target wasm32-unknown-unknown
    else
        skip "wasm32 build of core, model, sim" "the target wasm32-unknown-unknown is not installed"
    fi
}

summary() {
    local name
    echo
    sort -u "$collected"
    for name in "${failures[@]}"; do
        echo "FAILED: $name"
    done
    echo "total time: $SECONDS s"
    echo "$passed passed, $failed failed, $skipped skipped"
    [[ "$failed" == 0 ]]
}

check_lockfile
if [[ "$failed" != 0 ]]; then
    echo "Cargo.lock does not fit the manifests: run 'cargo update --workspace' and commit it; the other steps did not run"
    summary
    exit
fi
step "format" scripts/cargo.sh fmt --all --check
check_scripts
step "rooms: arrows only downwards, no cycle" scripts/checks/arrows.sh
step "dependencies are justified" scripts/checks/dependencies.sh
step "licences" scripts/checks/licences.sh
check_deny
step "clippy" scripts/cargo.sh clippy --workspace --all-targets --locked -- -D warnings
step "documentation" env RUSTDOCFLAGS="-D warnings" scripts/cargo.sh doc --workspace --no-deps --locked
# --show-output: the lines "SKIPPED: reason" of tests that pass are otherwise swallowed.
step "tests" scripts/cargo.sh test --workspace --lib --bins --tests --examples --locked --no-fail-fast \
    -- --show-output
step "documentation tests" scripts/cargo.sh test --workspace --doc --locked --no-fail-fast
check_wasm
summary
