#!/usr/bin/env bash
# web.sh [--needs|NETCLIFF]: the explorer: types, rules and layout of its sources, web/dist built from them, the page in Chromium and Firefox, its
# figures those of the program NETCLIFF (default: that of the last build). Exit 77, with the reason, where node or Chromium is
# missing; --needs only looks for them. Without Firefox that part is SKIPPED, or fails where NETCLIFF_REQUIRE has `programs` or `all`.
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
# npm ci empties the folder that a link leads to: another checkout's packages are used as they are.
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
    # Node.js 20 has WebSocket behind a flag.
    FIREFOX="$firefox" node --experimental-websocket tests/firefox.mjs "$program" || status=1
else
    skip_part scripts/checks/web.sh programs "Firefox: firefox-esr is not installed (Debian package firefox-esr)" || status=1
fi
exit "$status"
