#!/usr/bin/env bash
# optimised.sh BEFORE AFTER: what run.sh asks, of two `calibrated` examples, in turns: CPU time (user and system), medians of five (RUNS=5). The model alone, without
# the program around it: cargo build --release -p netcliff-model --example calibrated. `--cliff` is the search for the cliff and that for the peak.
set -u
cd "$(dirname "$0")" || exit 2
[ $# = 2 ] || { echo "usage: optimised.sh BEFORE AFTER: two calibrated examples" >&2; exit 2; }
cpu() { # user + system seconds of a command
  local TIMEFORMAT='%U %S'
  { time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ print $1 + $2 }'
}
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
printf '%-10s %-28s %9s %9s %7s\n' host question 'before s' 'after s' ratio
while read -r host name cliff question; do
  scheme="$(sed -n 's/^# Scheme: //p' "hosts/$host.toml")"
  old=(); new=()
  for _ in $(seq "${RUNS:-5}"); do
    for program in "$1" "$2"; do
      # shellcheck disable=SC2086 # words of the question
      taken="$(cpu "$program" "hosts/$host.toml" "$scheme" $question)"
      [ "$cliff" = - ] || taken="$(awk -v a="$taken" -v b="$(cpu "$program" "hosts/$host.toml" "$scheme" livelock "$cliff")" 'BEGIN { print a + b }')"
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
