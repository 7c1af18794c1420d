#!/usr/bin/env bash
# web.sh: builds the explorer in web/dist: the engine for the browser (Rust for wasm32-unknown-unknown), its JavaScript,
# the page. web/dist is committed, so that building netcliff does not need node. WASM=0 builds only the page and leaves
# the engine unchanged (seconds).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh
find_cargo

for program in node npm; do
    command -v "$program" >/dev/null || {
        echo "web: $program is missing: install Node.js 20.19 or newer with npm (the built page in web/dist needs neither)" >&2
        exit 1
    }
done
target="${CARGO_TARGET_DIR:-$PWD/target}"
if [[ "${WASM:-1}" != 0 ]]; then
    wasm_target_installed || {
        echo "web: the target is missing: rustup target add wasm32-unknown-unknown" >&2
        exit 1
    }
    scripts/cargo.sh build --locked --profile web -p netcliff-wasm --target wasm32-unknown-unknown
    scripts/cargo.sh build --locked --release --manifest-path web/bindgen/Cargo.toml --target-dir "$target/bindgen"
    "$target/bindgen/release/netcliff-bindgen" "$target/wasm32-unknown-unknown/web/netcliff_wasm.wasm" web/pkg
fi
cd web
[[ -d node_modules ]] || npm ci --ignore-scripts --no-audit --no-fund
if [[ "${WASM:-1}" != 0 ]]; then
    node build.mjs --wasm
else
    node build.mjs
fi
echo "web: the page is in web/dist: open web/dist/index.html, copy the folder to any web server, or rebuild netcliff for netcliff serve" >&2
