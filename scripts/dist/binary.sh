#!/usr/bin/env bash
# binary.sh ARCH BUILD_DIR OUT: the static binary for ARCH-unknown-linux-musl (x86_64, aarch64) with eBPF inside, written to OUT.
# Same bytes from the same sources, toolchain and lock file, wherever the tree and BUILD_DIR are.
set -euo pipefail
arch="$1" build="$2" out="$3"
# shellcheck source=scripts/dist/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

target="$arch-unknown-linux-musl"
mkdir -p "$build"
build="$(realpath "$build")"
scripts/dist/clibs.sh "$arch" "$build/c-$arch"

name="${target//-/_}"
upper="${name^^}"
c="$build/c-$arch"
# The linker that comes with Rust: that of the machine would write its version into the binary.
flags="-C linker=rust-lld -C linker-flavor=ld.lld -C target-feature=+crt-static"
# The more specific prefix has to come last: the last one that matches is used.
flags+=" --remap-path-prefix=$PWD=netcliff --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo --remap-path-prefix=$build=build"
# Where the component rust-src is installed, rustc writes the path of std's sources; elsewhere the name that they had when std was built.
sysroot="$(rustc --print sysroot)"
flags+=" --remap-path-prefix=$sysroot/lib/rustlib/src/rust=/rustc/$(rustc --version --verbose | sed -n 's/^commit-hash: //p')"
# `cargo auditable` puts the list of crates into the binary (cargo audit bin reads it). Pinned in scripts/dist/lib.sh, or bytes would differ.
command=(build)
[[ ! -x "$(auditable_bin)/cargo-auditable" ]] || command=(auditable build)
# No feature `static` of libbpf-sys: it would ask the same of the build for this machine, which compiles the eBPF programs. With nothing
# but archives in the library path, and a static program, the linker takes those.
env \
    CARGO_TARGET_DIR="$build" \
    CARGO_INCREMENTAL=0 \
    CARGO_PROFILE_RELEASE_DEBUG=none \
    CARGO_PROFILE_RELEASE_STRIP=debuginfo \
    "CARGO_TARGET_${upper}_RUSTFLAGS=$flags" \
    "CC_$name=$c/cc" "AR_$name=$c/ar" \
    "LIBBPF_SYS_LIBRARY_PATH_$name=$c/lib" \
    LIBBPF_SYS_EXTRA_CFLAGS="-I$c/include -O2" \
    NETCLIFF_REQUIRE_BPF=1 \
    PATH="$(auditable_bin):$PATH" \
    "${CARGO:-cargo}" "${command[@]}" --profile dist --locked --target "$target" -p netcliff
install -m 755 "$build/$target/dist/netcliff" "$out"
