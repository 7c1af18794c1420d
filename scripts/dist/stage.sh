#!/usr/bin/env bash
# stage.sh BINARY TARGET TREE [RUNNER]: copies the program and its files to TREE, as packages install them. A binary for
# this machine (NETCLIFF_HERE) prints the man pages and completions; without one, BINARY does, started by RUNNER if it
# is for another processor.
set -euo pipefail
binary="$1" target="$2" tree="$3"
if [[ -n "${NETCLIFF_HERE:-}" ]]; then here=("$NETCLIFF_HERE"); else here=("${4:-env}" "$binary"); fi
rm -rf "$tree"
umask 022
doc="$tree/usr/share/doc/netcliff"
mkdir -p "$tree"/usr/{bin,lib/systemd/system,lib/sysusers.d,share/man/man1,share/bash-completion/completions} \
    "$tree"/usr/share/{zsh/site-functions,fish/vendor_completions.d} "$doc"
install -m 755 "$binary" "$tree/usr/bin/netcliff"
install -m 644 packaging/netcliff-agent.{service,socket} "$tree/usr/lib/systemd/system/"
install -m 644 packaging/sysusers.conf "$tree/usr/lib/sysusers.d/netcliff.conf"
"${here[@]}" man "$tree/usr/share/man/man1"
find "$tree/usr/share/man" -name '*.1' -exec gzip -9n {} +
"${here[@]}" completions bash >"$tree/usr/share/bash-completion/completions/netcliff"
"${here[@]}" completions zsh >"$tree/usr/share/zsh/site-functions/_netcliff"
"${here[@]}" completions fish >"$tree/usr/share/fish/vendor_completions.d/netcliff.fish"
install -m 644 README.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE LICENSE-GPL-2.0 "$doc/"
install -m 644 COPYRIGHT "$doc/copyright"
mkdir -p "$doc/contrib"
[[ ! -d contrib ]] || cp -r contrib/. "$doc/contrib/"
python3 scripts/dist/inventory.py licences "$target" "$doc/THIRD-PARTY"
find "$tree" -type d -exec chmod 755 {} +
find "$tree" -type f ! -path '*/bin/*' -exec chmod 644 {} +
