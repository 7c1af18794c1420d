#!/usr/bin/env bash
# clibs.sh ARCH DIR: builds static libelf and zlib for ARCH-linux-musl (x86_64, aarch64): libraries in DIR/lib, headers
# in DIR/include, and the compiler as DIR/cc. The sources are those of the crate libbpf-sys in Cargo.lock.
#
# The crate's feature `vendored` would build the same sources, but with autotools inside cargo's registry, where another
# cargo may build at the same time. Also, elfutils' configure requires argp, fts and obstack, which musl does not have
# and libelf does not use.
set -euo pipefail
arch="$1" dir="$2"
# shellcheck source=scripts/dist/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

sources="$(crate_dir libbpf-sys)"
mkdir -p "$dir/lib" "$dir/include" "$dir/objects"

# Cargo's build scripts pass Rust's name of the target (x86_64-unknown-linux-musl), which zig does not know.
cat >"$dir/cc" <<SCRIPT
#!/usr/bin/env bash
arguments=()
for argument; do
    [[ "\$argument" == --target=* ]] || arguments+=("\$argument")
done
exec "$(zig)" cc -target $arch-linux-musl -fno-sanitize=undefined -ffile-prefix-map="$sources=libbpf-sys" "\${arguments[@]}"
SCRIPT
printf '#!/usr/bin/env bash\nexec "%s" ar "$@"\n' "$(zig)" >"$dir/ar"
chmod 755 "$dir/cc" "$dir/ar"

# archive NAME SOURCE_DIR FLAGS... -- FILE...: compiles the files and archives them in an order that does not depend on
# the machine.
archive() {
    local name="$1" from="$2" file
    local -a flags=() objects=()
    shift 2
    while [[ "$1" != -- ]]; do
        flags+=("$1")
        shift
    done
    shift
    mkdir -p "$dir/objects/$name"
    for file; do
        objects+=("$dir/objects/$name/${file##*/}.o")
    done
    # shellcheck disable=SC2016 # expanded by the inner shell
    printf '%s\n' "$@" | xargs -P "${CARGO_BUILD_JOBS:-2}" -I {} sh -c \
        'out="$1/$(basename "$3").o"; shift; cc="$1"; file="$2"; shift 2; exec "$cc" -O2 -fPIC -c "$@" "$file" -o "$out"' \
        sh "$dir/objects/$name" "$dir/cc" "$from/{}" "${flags[@]}"
    rm -f "$dir/lib/$name.a"
    "$dir/ar" rcsD "$dir/lib/$name.a" "${objects[@]}"
}

zlib_files=(adler32 compress crc32 deflate gzclose gzlib gzread gzwrite infback inffast inflate inftrees trees uncompr zutil)
archive libz "$sources/zlib" -DHAVE_UNISTD_H -D_LARGEFILE64_SOURCE=1 -- "${zlib_files[@]/%/.c}"
cp "$sources/zlib/zlib.h" "$sources/zlib/zconf.h" "$dir/include/"

# The results of elfutils' configure for musl, as far as libelf needs them.
cat >"$dir/objects/config.h" <<'CONFIG'
#define _GNU_SOURCE 1
#define HAVE_DECL_MEMPCPY 1
#define HAVE_DECL_RAWMEMCHR 0
#define HAVE_DECL_REALLOCARRAY 1
#define HAVE_DECL_POWEROF2 0
#define HAVE_FALLTHROUGH 1
#define HAVE_VISIBILITY 1
#define HAVE_ERR_H 1
#define PACKAGE "elfutils"
#include <eu-config.h>
CONFIG
mapfile -t elf_files < <(sed -n '/^libelf_a_SOURCES/,/[^\\]$/p' "$sources/elfutils/libelf/Makefile.am" | grep -o '[a-z0-9_]*\.c')
# elfutils defines its own powerof2.
archive libelf "$sources/elfutils/libelf" -std=gnu99 -Wno-macro-redefined -DHAVE_CONFIG_H -I"$dir/objects" -I"$sources/elfutils/libelf" \
    -I"$sources/elfutils/lib" -I"$dir/include" -- "${elf_files[@]}"
cp "$sources/elfutils/libelf/"{libelf.h,gelf.h,elf.h,nlist.h} "$dir/include/"
