#!/usr/bin/env bash
# dist.sh [--arch x86_64|aarch64]... [--check]: builds the files of a release in dist/. For each processor (default:
# both): a tar with the static binary, man pages, completions and licences, a .deb, an .rpm and an SBOM. In addition,
# one OCI image and SHA256SUMS. The same commit and toolchain give identical files: --check builds everything a second
# time, from a clone in another directory, and compares. Needs the programs that `make build` needs, the Rust target of
# each processor (rustup), python3 with venv, dpkg-deb and rpmbuild. zig is downloaded (scripts/lib/dist-tools.txt). The
# binary of another processor is tested in qemu-user if that is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh
# shellcheck source=scripts/dist/lib.sh
source scripts/dist/lib.sh
# shellcheck source=scripts/lib/debian.sh
source scripts/lib/debian.sh

say() { echo "dist: $*" >&2; }
fail() {
    say "$@"
    exit 1
}

arches=()
check=false
while (($#)); do
    case "$1" in
    --arch) arches+=("${2:?--arch x86_64 or aarch64}") && shift 2 ;;
    --check) check=true && shift ;;
    *) fail "'$1' is not an option; use: dist.sh [--arch x86_64|aarch64]... [--check]" ;;
    esac
done
((${#arches[@]})) || arches=(x86_64 aarch64)

find_cargo || fail "cargo $(required_rust) or newer not found; run: make setup"
ebpf_buildable || fail "eBPF cannot be built here; install first: apt-get install clang libelf-dev zlib1g-dev pkg-config"
for program in dpkg-deb rpmbuild python3 git; do
    command -v "$program" >/dev/null || fail "$program is missing; install first: apt-get install dpkg rpm python3 git"
done
[[ -z "$(git status --porcelain)" ]] || say "the tree has changes that are not committed: what is built is of no commit"
setup_dist_tools
setup_auditable

version="$(workspace_version)"
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
build="${CARGO_TARGET_DIR:-$PWD/target}/dist"
out="$PWD/dist"
rm -rf "$out"
mkdir -p "$out" "$build"

# runner ARCH: prints the command that runs a binary of this processor; nothing if there is none.
runner() {
    if [[ "$1" == "$(uname -m)" ]]; then
        printf 'env'
    else
        command -v "qemu-$1-static" || true
    fi
}

images=()
# The binary for this machine, once it is built.
NETCLIFF_HERE=""
for arch in "${arches[@]}"; do
    target="$arch-unknown-linux-musl"
    debian="$(debian_arch "$arch")" || fail "--arch $arch cannot be built for"
    [[ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]] || rustup target add "$target" >&2 ||
        fail "Rust's target $target is missing; install it first: rustup target add $target"
    run="$(runner "$arch")"
    [[ -n "$run$NETCLIFF_HERE" ]] || fail "the man pages of $arch have to be printed by a binary that runs here; install qemu-user-static" \
        "(apt-get install qemu-user-static), or build for this processor first: --arch $(uname -m) --arch $arch"
    say "building $target"
    scripts/dist/binary.sh "$arch" "$build" "$build/netcliff-$arch"
    if [[ -n "$run" ]]; then
        "$run" "$build/netcliff-$arch" --version | grep -qx "netcliff $version" || fail "the $arch binary does not run"
    else
        say "the $arch binary is not tried: qemu-$arch-static is not installed"
    fi
    # Man pages and completions do not depend on the processor.
    [[ "$arch" != "$(uname -m)" ]] || export NETCLIFF_HERE="$build/netcliff-$arch"
    tree="$build/tree-$arch"
    scripts/dist/stage.sh "$build/netcliff-$arch" "$target" "$tree" "$run"
    name="netcliff-$version-$arch-linux"
    tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
        --transform "s,^\.,$name," --directory "$tree/usr" . | gzip -9n >"$out/$name.tar.gz"
    scripts/dist/packages.sh "$tree" "$version" "$arch" "$debian" "$out/netcliff_${version}_$debian.deb" "$out/netcliff-$version-1.$arch.rpm"
    python3 scripts/dist/inventory.py sbom "$target" "$out/$name.cdx.json"
    images+=("$debian=$tree")
done
python3 scripts/dist/oci.py "$out/netcliff-$version.oci.tar" "$version" "$SOURCE_DATE_EPOCH" "${images[@]}"
(cd "$out" && sha256sum -- * >SHA256SUMS)
say "dist/ has:"
cat "$out/SHA256SUMS"

if $check; then
    say "building a second time, from a clone elsewhere"
    elsewhere="$(mktemp -d /var/tmp/netcliff-dist.XXXXXX)"
    trap 'rm -rf --one-file-system "$elsewhere"' EXIT
    git -c advice.detachedHead=false clone --quiet . "$elsewhere/again"
    options=()
    for arch in "${arches[@]}"; do options+=(--arch "$arch"); done
    tools="${NETCLIFF_DIST_TOOLS:-$PWD/target}"
    (cd "$elsewhere/again" && env -u CARGO_TARGET_DIR NETCLIFF_DIST_TOOLS="$tools" scripts/dist.sh "${options[@]}" >/dev/null)
    if ! diff "$out/SHA256SUMS" "$elsewhere/again/dist/SHA256SUMS"; then
        fail "two builds of $(git rev-parse --short HEAD) differ: a line of each above"
    fi
    say "two builds of $(git rev-parse --short HEAD) are the same"
fi
