#!/usr/bin/env bash
# doc.sh: builds the book (book.toml, docs/) in target/book; open target/book/index.html. Installs mdbook if it is
# missing. `cargo nextest run -p netcliff-report -E 'test(links)'`, which is part of `make test`, checks the links.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh

say() { echo "doc: $*" >&2; }

# Installs the binary of mdbook, by pip with a fixed hash, in a directory of the build.
install_mdbook() {
    local dir
    dir="$(tools_dir)"
    say "installing mdbook into $dir"
    [[ -x "$dir/bin/pip" ]] || python3 -m venv "$dir" || return 1
    "$dir/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --no-deps --require-hashes \
        -r scripts/lib/doc-tools.txt </dev/null >&2
}

# Compiles mdbook, which takes minutes. Used only if there is no binary for this machine.
compile_mdbook() {
    say "mdbook cannot be had as a binary here: compiling it (minutes)"
    find_cargo && "$CARGO" install --quiet --locked --no-default-features --root "$(tools_dir)" mdbook@0.5.4 </dev/null >&2
}

command -v mdbook >/dev/null || install_mdbook || compile_mdbook || {
    say "mdbook is missing; install it first: https://rust-lang.github.io/mdBook/guide/installation.html"
    exit 1
}

book=target/book
rm -rf "$book"
# mdbook reports pages that cannot be included, but does not fail.
said="$(mdbook build 2>&1)" || { echo "$said" >&2; exit 1; }
if grep -E 'ERROR|WARN' <<<"$said" >&2; then
    exit 1
fi
# Pages link to experiments by their path in the repository, next to docs/.
cp -r experiments "$book/experiments"
cat >"$book/index.html" <<'HTML'
<!DOCTYPE html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url=docs/index.html">
<title>netcliff</title>
<a href="docs/index.html">netcliff</a>
HTML
say "the book: $book/index.html"
