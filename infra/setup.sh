#!/usr/bin/env bash
# Sets up the checkout this file lies in: uv if it is missing, .venv from uv.lock, the jars from
# hourline_core/runtime/jars.lock, those of the tests from benchmarks/peers/jars.lock, the tables of the demo, and the
# classes that Java shares between starts. Run by the Makefile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

UV_VERSION=0.13.8

fail() {
    printf '%s\n' "$1" >&2
    exit 1
}

# A Python that is on PATH may still refuse to run (version managers put such stand-ins there), so each one is asked.
find_python() {
    local candidate
    for candidate in python3.13 python3.12 python3.11 python3; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' >/dev/null 2>&1; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    fail "Hourline needs Python 3.11, 3.12 or 3.13, and none of them is on PATH; install one and run make again"
}

# Prints the path of uv: the one on PATH, or one of its own in .uv.
find_uv() {
    local log=.uv/install.log
    if command -v uv; then
        return
    fi
    if [ ! -x .uv/bin/uv ]; then
        printf 'fetching uv %s\n' "$UV_VERSION" >&2
        rm -rf .uv
        mkdir .uv
        # Some systems ship Python without venv and some without pip; one of the two is enough.
        if "$1" -m venv .uv/env >"$log" 2>&1; then
            .uv/env/bin/python -m pip install --quiet "uv==$UV_VERSION" >>"$log" 2>&1 || fail_uv "$log"
            mkdir .uv/bin
            ln -s ../env/bin/uv .uv/bin/uv
        elif "$1" -m pip --version >>"$log" 2>&1; then
            "$1" -m pip install --quiet --target .uv "uv==$UV_VERSION" >>"$log" 2>&1 || fail_uv "$log"
        else
            fail "$1 has neither venv nor pip to fetch uv with; install one (python3-venv, python3-pip) or uv itself, and run make again"
        fi
    fi
    printf '%s\n' "$PWD/.uv/bin/uv"
}

fail_uv() {
    fail "uv $UV_VERSION could not be fetched: $(tail -n 1 "$1"); check the network and the proxy, or install uv, and run make again"
}

# Says what is done now, since the steps take minutes and are silent.
step() {
    printf '%s\n' "$1" >&2
}

python=$(find_python)
uv=$(find_uv "$python")
step '1/4 Python packages: installing those of uv.lock into .venv; the first time, this takes two minutes or more'
UV_COMPILE_BYTECODE=1 UV_PROJECT_ENVIRONMENT=.venv "$uv" sync --quiet --frozen --all-extras --python "$python"
step '2/4 Java: looking for version 17 or newer'
.venv/bin/python -m hourline_core.runtime.java
step '3/4 jars: fetching those of jars.lock that are not there yet'
.venv/bin/python -m hourline_core.runtime.jars
.venv/bin/python -m benchmarks.peers.streams
.venv/bin/python -m examples.nyc_flights.make_tables
step '4/4 Java classes: archiving what each start of Java shares; this takes half a minute'
.venv/bin/python -m hourline_core.runtime.class_training
