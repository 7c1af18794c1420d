# shellcheck shell=bash
# Functions for the other scripts: finds a cargo that is new enough, and says whether eBPF programs can be built. Sets
# CARGO, and if necessary PATH and RUSTUP_TOOLCHAIN. Installs nothing.

# Directory in which setup.sh installs the tools of the checks.
tools_dir() {
    printf '%s/tools' "${CARGO_TARGET_DIR:-$PWD/target}"
}

# Some users' PATH lacks the directories of ethtool and sysctl. The tools come last, because their directory is a Python
# environment whose interpreter must not replace that of the system.
PATH="$PATH:/usr/sbin:/sbin:$(tools_dir)/bin"

nextest_installed() {
    cargo-nextest nextest --version >/dev/null 2>&1
}

deny_installed() {
    cargo-deny --version >/dev/null 2>&1
}

# The oldest Rust version that builds the workspace.
required_rust() {
    sed -n 's/^rust-version *= *"\(.*\)"$/\1/p' Cargo.toml | head -n 1
}

# The newest Rust version whose clippy found nothing here. Warnings of newer versions are shown but do not fail, or
# `make test` would fail on new machines six weeks after every release.
checked_rust() {
    printf 1.99.1
}

# version_at_least HAVE WANT: whether version HAVE is WANT or newer.
version_at_least() {
    [[ "$(printf '%s\n' "$2" "$1" | sort -V | head -n 1)" == "$2" ]]
}

# Prints the version of a cargo; nothing if it does not run (for example a rustup shim without a toolchain).
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

# Sets CARGO to the first of these that is new enough: the caller's, that on PATH, that in CARGO_HOME, rustup's stable.
# Returns 1 if there is none.
find_cargo() {
    local home_bin
    home_bin="$(cargo_home_bin)"
    if [[ -n "${CARGO:-}" ]]; then
        # rustc and cargo's subcommands are in the same directory.
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

# Whether the eBPF programs can be built: this needs clang, and libelf and zlib that pkg-config finds.
ebpf_buildable() {
    command -v clang >/dev/null && command -v pkg-config >/dev/null && pkg-config --exists libelf zlib
}

# Whether the build contains eBPF. EBPF=0 in the environment leaves it out.
ebpf_wanted() {
    [[ "${EBPF:-1}" != 0 ]]
}
