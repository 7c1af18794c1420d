# shellcheck shell=bash
# A function for checks that can skip a part.

# skip_part SCRIPT NEED REASON: reports a skipped part as tests do (crates/testkit/src/report.rs): one line to stderr
# and one to NETCLIFF_SKIPPED_FILE. Returns 1 if NETCLIFF_REQUIRE contains NEED or `all`.
skip_part() {
    local line="SKIPPED: $1: $2: $3" required="${NETCLIFF_REQUIRE:-}"
    echo "$line" >&2
    if [[ ",${required// /}," == *",$2,"* || ",${required// /}," == *,all,* ]]; then
        echo "NETCLIFF_REQUIRE=$required makes this a failure" >&2
        return 1
    fi
    echo "$line" >>"${NETCLIFF_SKIPPED_FILE:-/dev/null}"
}
