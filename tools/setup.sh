#!/bin/sh
# Finds a Python that is new enough and complete, then hands over to tools/setup.py.
# Plain sh, because this is what must still speak clearly where everything else is missing.
set -eu
cd "$(dirname "$0")/.."

level=$1
wanted=${2:-}

complain() {
    printf 'make: %s\n' "$@" >&2
    exit 3
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

complete() {
    new_enough "$1" && "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

# An existing environment keeps its interpreter: a new one on PATH must not rebuild it.
find_python() {
    for candidate in .venv/bin/python python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$candidate" >/dev/null 2>&1 && "$1" "$candidate"; then
            python=$candidate
            return 0
        fi
    done
    return 1
}

version_of() {
    "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null || echo "no Python"
}

if [ -n "$wanted" ]; then
    command -v "$wanted" >/dev/null 2>&1 || complain "PYTHON=$wanted is not a command"
    new_enough "$wanted" || complain "PYTHON=$wanted is $(version_of "$wanted"); 3.11 or newer is needed"
    python=$wanted
# One that lacks venv is still better than none: tools/setup.py then says what to install.
elif ! find_python complete && ! find_python new_enough; then
    if command -v python3 >/dev/null 2>&1; then
        found="python3 here is $(version_of python3)"
    else
        found="there is no python3 here"
    fi
    complain "Python 3.11 or newer is needed, and $found." \
        "Debian, Ubuntu: apt-get install python3 python3-venv; or name one: make setup PYTHON=/path/to/python3"
fi

exec "$python" tools/setup.py "$level"
