#!/usr/bin/env bash
# web.sh [--needs|NETCLIFF]: checks the explorer: types, lint rules and format of its sources, whether web/dist is built
# from them, and the page in Chromium and Firefox, where its figures must equal those of the program NETCLIFF (default:
# the last build). Exit code 77, with the reason: node or Chromium is missing. --needs only looks for them. Without
# Firefox its part is SKIPPED, or fails if NETCLIFF_REQUIRE contains `programs` or `all`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib/skip.sh
source scripts/lib/skip.sh

skip() {
    echo "$*"
    exit 77
}
command -v node >/dev/null || skip "node is not installed"
command -v npm >/dev/null || skip "npm is not installed"
node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
    skip "node $(node --version) is older than 20.19"
browser="$(command -v chromium || command -v chromium-browser || command -v google-chrome)" || skip "chromium is not installed"
[[ "${1:-}" != --needs ]] || exit 0
program="${1:-${CARGO_TARGET_DIR:-$PWD/target}/debug/netcliff}"
[[ -x "$program" ]] || {
    echo "web: $program is missing, and with it the figures to compare the page's with; build it first: scripts/cargo.sh build" >&2
    exit 1
}
program="$(realpath "$program")"

cd web
# A linked node_modules belongs to another checkout and is used unchanged, because npm ci would empty the linked folder.
if ! [[ -L node_modules || node_modules/.package-lock.json -nt package-lock.json ]]; then
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error || skip "the packages of web/package-lock.json cannot be had"
fi
node_modules/.bin/tsc --noEmit
node_modules/.bin/eslint .
node_modules/.bin/prettier --check --log-level warn .
node build.mjs
git diff --exit-code --stat -- dist pkg || {
    echo "web/dist is not what web/src builds: run make web and commit it" >&2
    exit 1
}
status=0
CHROMIUM="$browser" node tests/page.mjs "$program" || status=1
if firefox="$(command -v firefox-esr || command -v firefox)"; then
    # Node.js 20 supports WebSocket only with this flag.
    FIREFOX="$firefox" node --experimental-websocket tests/firefox.mjs "$program" || status=1
else
    skip_part scripts/checks/web.sh programs "Firefox: firefox-esr is not installed (Debian package firefox-esr)" || status=1
fi
exit "$status"
