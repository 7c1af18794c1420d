#!/usr/bin/env bash
# run.sh NETCLIFF [OUT]: runs the questions of docs/theory/figures.md, "The conclusions of section 5.2". Writes one file
# per question to OUT (results/).
set -uo pipefail
netcliff="$(realpath "${1:?the netcliff binary}")"
out="${2:-$(dirname "${BASH_SOURCE[0]}")/results}"
mkdir -p "$out"

# ask NAME ARGUMENTS: writes the page, standard error and the exit code to a file. Exit code 1 (another verdict than
# `picked`) is a valid answer.
ask() {
    local name="$1"
    shift
    {
        printf '$ netcliff advise'
        printf ' %q' "$@"
        printf '\n'
        "$netcliff" advise "$@" 2>&1
        echo "exit code $?"
    } >"$out/$name.txt"
}

effort=(--packets-each 10000 --packets-at-most 6000000 --margin 1000%)
counts=(--scheme coalesce:frames=1 --scheme coalesce:frames=2 --scheme coalesce:frames=4 --scheme coalesce:frames=8 --scheme coalesce:frames=16)
timers=(--scheme coalesce:usecs=10us --scheme coalesce:usecs=50us --scheme coalesce:usecs=100us)
quotas=(--scheme polling:quota=2 --scheme polling:quota=3 --scheme polling:quota=4)
# shellcheck disable=SC2054 # commas are part of a scheme
periods=(--scheme polling:period=10us,quota=4 --scheme polling:period=20us,quota=4 --scheme polling:period=40us,quota=4)
napi=(--scheme napi-2007:quota=3 --scheme polling:quota=3 --scheme disable-enable)
# shellcheck disable=SC2054
hybrid=(--scheme disable-enable --scheme polling:quota=3 --scheme hybrid:quota=3,up=120kpps,down=110kpps)

ask a-count-low "${effort[@]}" --rates 1kpps,10kpps --minimise mean "${counts[@]}"
ask a-timer-low "${effort[@]}" --rates 1kpps,10kpps --minimise mean "${timers[@]}"
hybrids=20kpps,60kpps,100kpps,116kpps,130kpps,140kpps,170kpps,250kpps
ask h-hybrid-available "${effort[@]}" --json --rates "$hybrids" --maximise available "${hybrid[@]}"
ask b-quota-available "${effort[@]}" --json --rates 20kpps,100kpps,140kpps,250kpps --maximise available "${quotas[@]}"
ask d-napi-available "${effort[@]}" --json --rates 1kpps,20kpps,60kpps,100kpps,250kpps --maximise available "${napi[@]}"
ask c-period-available "${effort[@]}" --json --rates 20kpps,100kpps,250kpps --maximise available "${periods[@]}"
ask h-hybrid-mean "${effort[@]}" --json --rates "$hybrids" --minimise mean "${hybrid[@]}"
