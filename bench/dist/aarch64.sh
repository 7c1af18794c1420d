#!/usr/bin/env bash
# aarch64.sh ARM X86: runs the aarch64 program of `make dist` in qemu-user and compares it with the x86-64 program on
# this machine. Answers of model and simulator must be equal except for their provenance. Traffic between the two uses
# loopback.
set -euo pipefail
arm=(qemu-aarch64-static "$1") x86=("$2")
dir="$(mktemp -d)"
agent=""
trap '[[ -z "$agent" ]] || kill "$agent" 2>/dev/null || true; rm -rf "$dir"' EXIT
export XDG_DATA_HOME="$dir/data" XDG_RUNTIME_DIR="$dir"

# Prints the first lines of a program's output, and its exit code.
show() {
    local name="$1" status=0
    shift
    echo "\$ $name ${*: -$#:$#}" | sed "s,${arm[*]} ,,; s,${x86[0]} ,,; s,$dir/,,g"
    timeout 60 "$@" >"$dir/out" 2>&1 || status=$?
    head -n 7 "$dir/out"
    echo "exit $status"
}

for words in "predict --json --host pentium4-2530mhz --rates 10kpps,50kpps,100kpps,150kpps,200kpps" \
    "simulate --json --host pentium4-2530mhz --rates 50kpps,100kpps,150kpps --packets 100000 --seed 7" \
    "simulate --json --host pentium4-2530mhz --scheme interrupt --rate 100kpps --packets 100000 --seed 7"; do
    # shellcheck disable=SC2086 # words are words
    diff <("${arm[@]}" $words | jq -c 'del(.provenance)') <("${x86[@]}" $words | jq -c 'del(.provenance)')
    echo "same on both: $words"
done
mkdir "$dir/man" "$dir/man86"
"${arm[@]}" man "$dir/man"
"${x86[@]}" man "$dir/man86"
diff -r "$dir/man" "$dir/man86"
echo "same on both: $(find "$dir/man" -name '*.1' | wc -l) man pages"
show aarch64 "${arm[@]}" --version
show aarch64 "${arm[@]}" stream --testbed loopback --time 1 --repeats 1 --warmup 0.2 --block 64KiB
show aarch64 "${arm[@]}" rr --testbed loopback --time 1 --repeats 1
show aarch64 "${arm[@]}" find --quick
"${arm[@]}" agent --make-key "$dir/key" >/dev/null 2>&1
"${arm[@]}" agent --listen 127.0.0.1:19940 --key "$dir/key" >"$dir/agent" 2>&1 &
agent=$!
sleep 3
show x86-64 "${x86[@]}" stream --to 127.0.0.1:19940 --key "$dir/key" --time 1 --repeats 1 --block 64KiB
show x86-64 "${x86[@]}" rr --to 127.0.0.1:19940 --key "$dir/key" --time 1 --repeats 1
kill -TERM "$agent"
status=0
wait "$agent" || status=$?
agent=""
sed 's/^/aarch64 agent: /' "$dir/agent"
echo "exit $status"
