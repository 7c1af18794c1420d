#!/bin/sh
# A thousand drawn orders of a client with the key, against the built agent: its memory stays below --memory plus 64 MiB. Takes minutes.
set -eu
cd "$(dirname "$0")/../.."
exec cargo test -p netcliff --test cli a_thousand_drawn_orders -- --ignored --nocapture
