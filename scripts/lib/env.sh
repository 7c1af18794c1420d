# shellcheck shell=bash
# Sourced by the other scripts: finds a cargo that is new enough, and says whether eBPF can be built.
# Sets CARGO, and PATH and RUSTUP_TOOLCHAIN where needed. Installs nothing.

# Where setup.sh puts the tools of the checks.
tools_dir() {
    printf '%s/tools' "${CARGO_TARGET_DIR:-$PWD/target}"
}

# Administrators' programs (ethtool, sysctl) stand outside of some users' PATH. The tools come last: their directory is
# a Python environment, whose interpreter is for nobody else.
PATH="$PATH:/usr/sbin:/sbin:$(tools_dir)/bin"

nextest_installed() {
    cargo-nextest nextest --version >/dev/null 2>&1
}

deny_installed() {
    cargo-deny --version >/dev/null 2>&1
}

# The oldest Rust that builds the workspace.
required_rust() {
    sed -n 's/^rust-version *= *"\(.*\)"$/\1/p' Cargo.toml | head -n 1
}

# The newest Rust whose clippy found nothing here. What a newer one adds to its lints is shown and fails nothing, or `make test` would
# fail on fresh machines six weeks after every release.
checked_rust() {
    printf 1.99.1
}

# version_at_least HAVE WANT
version_at_least() {
    [[ "$(printf '%s\n' "$2" "$1" | sort -V | head -n 1)" == "$2" ]]
}

# Version printed by a cargo; nothing when it does not run (a rustup shim with no toolchain behind it).
cargo_version() {
    "$1" --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p'
}

cargo_is_new_enough() {
    local have
    have="$(cargo_version "$1")"
    [[ -n "$have" ]] && version_at_least "$have" "$(required_rust)"
}

cargo_home_bin() {
    printf '%s' "${CARGO_HOME:-${HOME:-/nonexistent}/.cargo}/bin"
}

# Chooses CARGO: the caller's, the one on PATH, the one of CARGO_HOME, rustup's stable; the first that is
# new enough. Returns 1 when there is none.
find_cargo() {
    local home_bin
    home_bin="$(cargo_home_bin)"
    if [[ -n "${CARGO:-}" ]]; then
        # Its rustc and its subcommands stand beside it.
        [[ "$CARGO" != */* ]] || export PATH="${CARGO%/*}:$PATH"
        cargo_is_new_enough "$CARGO" && export CARGO
        return
    fi
    if cargo_is_new_enough cargo; then
        export CARGO=cargo
        return
    fi
    if [[ -x "$home_bin/cargo" ]]; then
        export PATH="$home_bin:$PATH"
        if cargo_is_new_enough cargo; then
            export CARGO=cargo
            return
        fi
    fi
    if RUSTUP_TOOLCHAIN=stable cargo_is_new_enough cargo; then
        export CARGO=cargo RUSTUP_TOOLCHAIN=stable
        return
    fi
    return 1
}

wasm_target_installed() {
    local libdir
    libdir="$("${RUSTC:-rustc}" --print target-libdir --target wasm32-unknown-unknown 2>/dev/null)" &&
        [[ -d "$libdir" ]]
}

# What building the eBPF programs needs: clang, and libelf and zlib found by pkg-config.
ebpf_buildable() {
    command -v clang >/dev/null && command -v pkg-config >/dev/null && pkg-config --exists libelf zlib
}

# True when the build is to have its eBPF part. EBPF=0 in the environment leaves it out.
ebpf_wanted() {
    [[ "${EBPF:-1}" != 0 ]]
}
