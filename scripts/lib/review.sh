# shellcheck shell=bash
# Sourced by scripts/review/*.sh: how a row is judged and printed, and how a script ends. `wrong` is the part's own.

# verdict ROW SEEN TEST...: the row is right where the test succeeds.
verdict() {
    local row=$1 seen=$2
    shift 2
    if "$@"; then echo "ok $row: $seen"; else
        echo "WRONG $row: $seen"
        # shellcheck disable=SC2034 # the part ends with it
        wrong=1
    fi
}

# coded ROW CODE SEEN: the row is right where the code is 0.
coded() { verdict "$1" "$3" [ "$2" -eq 0 ]; }

skipped() { echo "SKIPPED $1: $2"; }

# ended CODE: keeps the worst code of the parts, with which the script exits.
worst=0
ended() { ((worst >= $1)) || worst=$1; }
