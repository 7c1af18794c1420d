# shellcheck shell=bash
# Sourced by checks of which a part may lack something.

# skip_part SCRIPT NEED REASON: reports it as tests do (crates/testkit/src/report.rs): a line to stderr and to NETCLIFF_SKIPPED_FILE. Returns 1
# where NETCLIFF_REQUIRE has NEED or `all`.
skip_part() {
    local line="SKIPPED: $1: $2: $3" required="${NETCLIFF_REQUIRE:-}"
    echo "$line" >&2
    if [[ ",${required// /}," == *",$2,"* || ",${required// /}," == *,all,* ]]; then
        echo "NETCLIFF_REQUIRE=$required makes this a failure" >&2
        return 1
    fi
    echo "$line" >>"${NETCLIFF_SKIPPED_FILE:-/dev/null}"
}
