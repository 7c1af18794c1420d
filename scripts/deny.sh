#!/usr/bin/env bash
# deny.sh: installs cargo-deny where it is absent (it compiles for minutes) and runs every check of deny.toml.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib/env.sh
source scripts/lib/env.sh
find_cargo

if ! "$CARGO" deny --version >/dev/null 2>&1; then
    echo "installing cargo-deny" >&2
    "$CARGO" install cargo-deny --locked
fi
exec "$CARGO" deny --locked check
