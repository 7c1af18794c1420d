#!/usr/bin/env bash
# import.sh PYTHON: seconds of `import netcliff`, the interpreter's own start not counted; ten runs.
set -euo pipefail
"${1:-python3}" - <<'PY'
import subprocess, sys, time
def run(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start
run("import netcliff")
print(sorted(round(run("import netcliff") - run("pass"), 3) for _ in range(10)))
PY
