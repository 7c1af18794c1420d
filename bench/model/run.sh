#!/usr/bin/env bash
# run.sh BEFORE AFTER [HOST.toml ...]: CPU time (user and system) of predictions for calibrated hosts by two programs, in turns: medians of five (RUNS=5).
# Hosts: those of hosts/ in this folder; their scheme is in the second line of each. No root, no network, a store of its own.
set -u
[ $# -ge 2 ] || { echo "usage: run.sh BEFORE AFTER [HOST.toml ...]: two netcliff programs" >&2; exit 2; }
here="$(cd "$(dirname "$0")" && pwd)"
before="$(realpath "$1")"; after="$(realpath "$2")"; shift 2
for program in "$before" "$after"; do
  "$program" --version >/dev/null || { echo "$program does not run: expected a netcliff program" >&2; exit 2; }
done
[ $# -gt 0 ] || set -- "$here"/hosts/*.toml
runs="${RUNS:-5}"
store="$(mktemp -d)"; export XDG_DATA_HOME="$store" NETCLIFF_STATE_DIR="$store/state"
mkdir -m 700 "$NETCLIFF_STATE_DIR"
trap 'rm -rf "$store"' EXIT
cpu() { # user + system seconds of a command
  local TIMEFORMAT='%U %S'
  { time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ print $1 + $2 }'
}
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
printf '%-14s %-34s %9s %9s %7s\n' host question 'before s' 'after s' ratio
for host in "$@"; do
  scheme="$(sed -n 's/^# Scheme: //p' "$host")"
  # A third of the load that the CPU could just do, and loads up to 1.2 times it.
  top="$(awk -F'"' 'function us(t) { return t ~ /ns/ ? t / 1000 : t + 0 } /^(protocol|application) /{ s += us($2) } END { printf "%d", 1.2e6 / s }' "$host")"
  one="$((top / 4))"
  while read -r question; do
    # shellcheck disable=SC2086 # words of the question
    set -- predict --host "$host" --scheme "$scheme" $question
    old=(); new=()
    for _ in $(seq "$runs"); do old+=("$(cpu "$before" "$@")"); new+=("$(cpu "$after" "$@")"); done
    a="$(printf '%s\n' "${old[@]}" | median)"; b="$(printf '%s\n' "${new[@]}" | median)"
    printf '%-14s %-34s %9.3f %9.3f %7.1f\n' "$(basename "$host" .toml)" "$question" "$a" "$b" "$(awk -v a="$a" -v b="$b" 'BEGIN { print a / (b > 0 ? b : 0.001) }')"
  done <<Q
--rate ${one}pps
--rates $((top / 40))pps..${top}pps:30
--cliff
Q
done
