#!/usr/bin/env bash
# captures.sh NETCLIFF DIRECTORY: compares netcliff's reader of captures with capinfos (Wireshark) on every file of a
# directory: the number of packets, and the rate from the first and last time. Prints one line per file: ok, differs,
# noted (netcliff leaves packets out or shortens them, and says so) or refused, with netcliff's message. Exit code 1: a
# file differs. Public captures to use: those of tcpdump's tests and of pcapng-test-generator.
set -uo pipefail
netcliff="$(realpath "${1:?usage: captures.sh NETCLIFF DIRECTORY}")"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
export XDG_DATA_HOME="$scratch"
declare -A count=([ok]=0 [noted]=0 [refused]=0 [differs]=0)
say() {
    echo "$1 $2: $3"
    count[$1]=$((count[$1] + 1))
}
while IFS= read -r file; do
    name="${file##*/}"
    seen="$("$netcliff" simulate --host pentium4-2530mhz --arrivals "trace:$file" --size 64B --packets 1000 --json 2>"$scratch/err")"
    IFS=$'\t' read -r packets duration_s < <(capinfos -Tmrcu "$file" 2>/dev/null | tail -1 | tr ',' '\t' | cut -f2-)
    if [[ -z "$seen" ]]; then
        say refused "$name" "$(tail -1 "$scratch/err")"
        continue
    fi
    verdict="$(python3 - "$seen" "${packets:-}" "${duration_s:-}" <<'PY'
import json, sys
seen, packets = json.loads(sys.argv[1]), int(sys.argv[2] or 0)
if sys.argv[3] in ("", "n/a"):
    sys.exit(print("differs", f"capinfos has no duration of {packets} packets"))
duration_s = float(sys.argv[3])
rate = seen["point"]["traffic"]["rate"]
scale = {"kpps": 1e3, "Mpps": 1e6, "Gpps": 1e9, "pps": 1.0}
unit = next(unit for unit in scale if rate.endswith(unit))
pps = float(rate.removesuffix(unit)) * scale[unit]
ours = pps * duration_s + 1
print("ok" if abs(ours - packets) < 0.02 + 1e-5 * packets else "differs", f"{ours:.2f} of {packets} packets over {duration_s} s, {rate}")
PY
)"
    note="$(grep -o "$name: .*" "$scratch/err" | head -1)"
    case "$verdict" in
    ok*) say ok "$name" "${verdict#ok }" ;;
    *) if [[ -n "$note" ]]; then say noted "$name" "${verdict#differs }; ${note#*: }"; else say differs "$name" "${verdict#differs }"; fi ;;
    esac
done < <(find "$2" -type f | sort)
echo "${count[ok]} ok, ${count[noted]} noted, ${count[refused]} refused, ${count[differs]} differ"
[[ "${count[differs]}" == 0 ]]
