#!/usr/bin/env bash
# binary.sh ARCH BUILD_DIR OUT: builds the static binary for ARCH-unknown-linux-musl (x86_64, aarch64), with eBPF, and
# writes it to OUT. The same sources, toolchain and lock file give an identical file, in whichever directories the tree
# and BUILD_DIR are.
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
# Use the linker that comes with Rust. The linker of the machine would write its version into the binary.
flags="-C linker=rust-lld -C linker-flavor=ld.lld -C target-feature=+crt-static"
# The last matching prefix is used, so the more specific prefix must come last.
flags+=" --remap-path-prefix=$PWD=netcliff --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo --remap-path-prefix=$build=build"
# If the component rust-src is installed, rustc records the path of std's sources. Replace it by the name that std had
# when it was built.
sysroot="$(rustc --print sysroot)"
flags+=" --remap-path-prefix=$sysroot/lib/rustlib/src/rust=/rustc/$(rustc --version --verbose | sed -n 's/^commit-hash: //p')"
# `cargo auditable` puts the list of crates into the binary, where `cargo audit bin` reads it. Its version is pinned in
# scripts/dist/lib.sh, because another version would change the binary.
command=(build)
[[ ! -x "$(auditable_bin)/cargo-auditable" ]] || command=(auditable build)
# The feature `static` of libbpf-sys is not used: it would also require static libraries of this machine for the build
# script that compiles the eBPF programs. The library path contains only archives, so the linker of a static program
# uses those.
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
