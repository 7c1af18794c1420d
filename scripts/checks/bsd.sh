#!/usr/bin/env bash
# bsd.sh [freebsd|openbsd]: runs `cargo check` on the whole program for a BSD on x86-64 (default: FreeBSD). Only the
# Rust code is checked. Nothing is linked, so a compiler that writes empty files replaces the C compiler (for SQLite and
# ring). FreeBSD needs `rustup target add x86_64-unknown-freebsd`. rustup has no standard library for OpenBSD: nightly
# Rust with rust-src builds it, which takes minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh

system="${1:-freebsd}"
case "$system" in
freebsd | openbsd) ;;
*)
    echo "bsd: '$system' is not checked: freebsd or openbsd" >&2
    exit 2
    ;;
esac
find_cargo || {
    echo "bsd: cargo $(required_rust) or newer not found; run: make setup" >&2
    exit 1
}
target="x86_64-unknown-$system"
arguments=(check --locked --no-default-features -p netcliff --target "$target")
if [[ "$system" == freebsd ]]; then
    [[ -d "$("${RUSTC:-rustc}" --print target-libdir --target "$target")" ]] || {
        echo "bsd: Rust's target $target is missing; install it first: rustup target add $target" >&2
        exit 1
    }
    command=("$CARGO")
else
    # -Zbuild-std needs nightly Rust, whichever toolchain is set here.
    unset RUSTUP_TOOLCHAIN
    command=(cargo +nightly)
    arguments+=("-Zbuild-std=std,panic_abort")
fi

compiler="$(mktemp)"
trap 'rm -f "$compiler"' EXIT
cat >"$compiler" <<'COMPILER'
#!/usr/bin/env bash
# Writes an empty file instead of compiling. Other calls go to the real compiler.
arguments=("$@")
for ((at = 0; at < $#; at++)); do
    [[ "${arguments[at]}" != -o || " $* " != *" -c "* ]] || exec cp /dev/null "${arguments[at + 1]}"
done
exec cc "$@"
COMPILER
chmod 755 "$compiler"
env "CC_${target//-/_}=$compiler" "${command[@]}" "${arguments[@]}"
