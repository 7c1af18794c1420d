#!/usr/bin/env bash
# Compares the CPU time (user and system) of predictions for calibrated hosts between two programs that take turns.
# Prints medians of RUNS (5) runs. Needs neither root nor a network.
#   run.sh BEFORE AFTER [HOST.toml ...]   compares two netcliff programs, which share a temporary store. Default: the
#                                         hosts of hosts/ in this folder. The second line of a host file is its scheme.
#   run.sh --model BEFORE AFTER           compares the model alone, without the program around it, on the hosts veth and
#                                         guest. BEFORE and AFTER are two builds of the example `calibrated` (cargo
#                                         build --release -p netcliff-model --example calibrated). The row `--cliff`
#                                         contains the searches for the cliff and for the highest throughput.
set -u
here="$(cd "$(dirname "$0")" && pwd)"
usage() { echo "usage: run.sh BEFORE AFTER [HOST.toml ...], or run.sh --model BEFORE AFTER" >&2; exit 2; }
cpu() { # user + system seconds of a command
  local TIMEFORMAT='%U %S'
  { time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ print $1 + $2 }'
}
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

programs() {
  [ $# -ge 2 ] || usage
  local before after
  before="$(realpath "$1")"; after="$(realpath "$2")"; shift 2
  for program in "$before" "$after"; do
    "$program" --version >/dev/null || { echo "$program does not run: expected a netcliff program" >&2; exit 2; }
  done
  [ $# -gt 0 ] || set -- "$here"/hosts/*.toml
  store="$(mktemp -d)"; export XDG_DATA_HOME="$store" NETCLIFF_STATE_DIR="$store/state"
  mkdir -m 700 "$NETCLIFF_STATE_DIR"
  trap 'rm -rf "$store"' EXIT
  printf '%-14s %-34s %9s %9s %7s\n' host question 'before s' 'after s' ratio
  for host in "$@"; do
    scheme="$(sed -n 's/^# Scheme: //p' "$host")"
    # One load is 30 % of the load at which the CPU is just fully busy. The others reach up to 120 % of it.
    top="$(awk -F'"' 'function us(t) { return t ~ /ns/ ? t / 1000 : t + 0 } /^(protocol|application) /{ s += us($2) } END { printf "%d", 1.2e6 / s }' "$host")"
    one="$((top / 4))"
    while read -r question; do
      # shellcheck disable=SC2086 # words of the question
      set -- predict --host "$host" --scheme "$scheme" $question
      old=(); new=()
      for _ in $(seq "${RUNS:-5}"); do old+=("$(cpu "$before" "$@")"); new+=("$(cpu "$after" "$@")"); done
      a="$(printf '%s\n' "${old[@]}" | median)"; b="$(printf '%s\n' "${new[@]}" | median)"
      printf '%-14s %-34s %9.3f %9.3f %7.1f\n' "$(basename "$host" .toml)" "$question" "$a" "$b" "$(awk -v a="$a" -v b="$b" 'BEGIN { print a / (b > 0 ? b : 0.001) }')"
    done <<Q
--rate ${one}pps
--rates $((top / 40))pps..${top}pps:30
--cliff
Q
  done
}

model_alone() {
  [ $# = 2 ] || usage
  printf '%-10s %-28s %9s %9s %7s\n' host question 'before s' 'after s' ratio
  while read -r host name cliff question; do
    scheme="$(sed -n 's/^# Scheme: //p' "$here/hosts/$host.toml")"
    old=(); new=()
    for _ in $(seq "${RUNS:-5}"); do
      for program in "$1" "$2"; do
        # shellcheck disable=SC2086 # words of the question
        taken="$(cpu "$program" "$here/hosts/$host.toml" "$scheme" $question)"
        [ "$cliff" = - ] || taken="$(awk -v a="$taken" -v b="$(cpu "$program" "$here/hosts/$host.toml" "$scheme" livelock "$cliff")" 'BEGIN { print a + b }')"
        if [ "$program" = "$1" ]; then old+=("$taken"); else new+=("$taken"); fi
      done
    done
    a="$(printf '%s\n' "${old[@]}" | median)"; b="$(printf '%s\n' "${new[@]}" | median)"
    printf '%-10s %-28s %9.3f %9.3f %7.1f\n' "$host" "$name" "$a" "$b" "$(awk -v a="$a" -v b="$b" 'BEGIN { print a / (b > 0 ? b : 0.001) }')"
  done <<Q
$(thirty() { awk -v a="$1" -v b="$2" 'BEGIN { for (i = 0; i < 30; i++) printf " %.1f", a * exp(log(b / a) * i / 29) }'; }
echo "veth --rate_103469pps - sweep 103469"
echo "veth 30_loads_to_414kpps - sweep $(thirty 10346 413878)"
echo "veth --cliff 291162 cliff"
echo "guest --rate_10251pps - sweep 10251"
echo "guest 30_loads_to_41kpps - sweep $(thirty 1025 41006)"
echo "guest --cliff 13496.57 cliff")
Q
}

case "${1:-}" in
--model) shift; model_alone "$@" ;;
*) programs "$@" ;;
esac
