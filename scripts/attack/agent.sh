#!/bin/sh
# A client with the key sends a thousand random orders to the built agent. Its memory must stay below --memory plus 64
# MiB. Takes minutes.
set -eu
cd "$(dirname "$0")/../.."
exec cargo test -p netcliff --test cli a_thousand_drawn_orders -- --ignored --nocapture
