# shellcheck shell=bash
# Functions for scripts/review/*.sh: judge and print a row, and end a script. Each part of a script has its own variable
# `wrong`.

# verdict ROW SEEN TEST...: the row is right if the test succeeds.
verdict() {
    local row=$1 seen=$2
    shift 2
    if "$@"; then echo "ok $row: $seen"; else
        echo "WRONG $row: $seen"
        # shellcheck disable=SC2034 # the part ends with it
        wrong=1
    fi
}

# coded ROW CODE SEEN: the row is right if the code is 0.
coded() { verdict "$1" "$3" [ "$2" -eq 0 ]; }

skipped() { echo "SKIPPED $1: $2"; }

# ended CODE: stores the worst exit code of the parts in `worst`, with which the script exits.
worst=0
ended() { ((worst >= $1)) || worst=$1; }
