#!/usr/bin/env bash
# Sets up the environment that every make target runs in. Goes on where an earlier run stopped:
# what is installed or downloaded is not fetched again.
set -euo pipefail

python="${PYTHON:-python3.11}"
venv="${VENV:-.venv}"
stamp="${STAMP:-$venv/.tidemill-stamp}"

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

if [ ! -x "$venv/bin/python" ]; then
    command -v "$python" >/dev/null 2>&1 || python=python3
    command -v "$python" >/dev/null 2>&1 || fail "no Python found: install Python 3.11"
    "$python" -c 'import sys; raise SystemExit(sys.version_info[:2] != (3, 11))' ||
        fail "$("$python" --version) does not fit: PyFlink needs Python 3.11 (make PYTHON=/path/to/python3.11)"
    say "creating $venv with $("$python" --version)"
    "$python" -m venv "$venv" || fail "python -m venv failed: is Python's venv module installed?"
fi

log="$venv/setup.log"
say "installing the Python packages of constraints.txt into $venv (6 GB with torch, once; log: $log)"
"$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off --retries 10 \
    --constraint constraints.txt --editable '.[dev]' 2>&1 |
    tee "$log" | sed -u -n -E 's/^ *(Downloading .* \([0-9.]+ [MG]B\)|Installing collected packages).*/setup:   \1/p' ||
    { tail -n 20 "$log" >&2
      fail "pip could not install everything (log: $log); run the same command again to go on"; }

say "fetching the jars and compiling the bridge"
"$venv/bin/python" -m deploy.fetch ||
    fail "a download failed (see above); run the same command again to go on"

touch "$stamp"
