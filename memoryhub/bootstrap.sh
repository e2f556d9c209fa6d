#!/bin/sh
# Makes .venv hold exactly what a lock says, on a machine with nothing but Python 3.11+, pip and make.
#
#   sh memoryhub/bootstrap.sh runtime     what the server needs          (requirements.lock)
#   sh memoryhub/bootstrap.sh dev         and what its developers need   (requirements-dev.lock)
#   sh memoryhub/bootstrap.sh browser     Chromium for the browser's tests, from Debian's or Ubuntu's packages
#   sh memoryhub/bootstrap.sh uv …        run uv, fetching it if necessary
#
# POSIX sh, because it runs before anything is installed. A copy of the lock inside .venv tells what is there,
# so the second run does nothing. The dev lock contains the runtime lock (`make lock` sees to it), so one
# .venv serves both, and `make run` does not undo what `make test` installed.
set -eu
unset CDPATH PYTHONHOME
export PIP_ROOT_USER_ACTION=ignore  # everything goes into folders of our own
cd -- "$(dirname -- "$0")/.."

UV_VERSION=0.13.9
TOOLS=.venv-tools
VENV=.venv
VENV_PYTHON=$VENV/bin/python

say() { printf '%s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# The Python to build with: PYTHON if given, else python3, else a newer one beside it.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        command -v "$PYTHON" >/dev/null 2>&1 || fail "PYTHON=$PYTHON: there is no such program."
        is_recent "$PYTHON" || fail "PYTHON=$PYTHON is older than 3.11: $("$PYTHON" --version 2>&1)."
        return
    fi
    for PYTHON in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if is_recent "$PYTHON"; then return; fi
    done
    fail "memoryhub needs Python 3.11 or newer, and here is $(python3 --version 2>&1 || echo none)." \
        "Install one (Debian, Ubuntu: apt install python3 python3-pip) or name it: PYTHON=/path/to/python3.11 make run"
}

version_of() { "$1" -c 'import sys; print(sys.version)' 2>/dev/null; }

# An environment that works is kept, unless PYTHON names another version than the one in it.
venv_fits() {
    is_recent "$VENV_PYTHON" || return 1
    [ -z "${PYTHON_ASKED:-}" ] || [ "$(version_of "$VENV_PYTHON")" = "$(version_of "$PYTHON")" ]
}

make_venv() {
    say "Making $VENV with $("$PYTHON" --version 2>&1) …"
    rm -rf "$VENV"
    # Debian keeps ensurepip in a package of its own; without pip inside, venv works everywhere.
    "$PYTHON" -m venv --without-pip "$VENV" || { find_uv && "$UV" venv --quiet --python "$PYTHON" "$VENV"; } ||
        fail "$PYTHON cannot make a virtual environment. Debian, Ubuntu: apt install python3-venv"
}

find_uv() {
    for UV in uv "$TOOLS/bin/uv"; do
        if "$UV" --version >/dev/null 2>&1; then return 0; fi
    done
    say "Fetching uv, which installs quickly …"
    "$PYTHON" -m pip install --quiet --disable-pip-version-check --target "$TOOLS" "uv==$UV_VERSION" >&2 &&
        "$UV" --version >/dev/null 2>&1
}

sync() { UV_SYSTEM_CERTS=$1 "$UV" pip sync --quiet --require-hashes --python "$VENV_PYTHON" "$2"; }

# uv first, with its own certificates, then with the system's, which know a proxy that inspects TLS. It does not read
# pip's configuration, so behind a mirror pip may succeed where uv does not.
install_lock() {
    if find_uv && { sync "${UV_SYSTEM_CERTS:-0}" "$1" || sync 1 "$1"; }; then return; fi
    say "Without uv then: installing with pip, which takes one to three minutes …"
    if "$PYTHON" -m pip --python "$VENV_PYTHON" install --quiet --disable-pip-version-check --require-hashes -r "$1"
    then return; fi
    if "$PYTHON" -m venv "$VENV" && "$VENV_PYTHON" -m pip install --quiet --require-hashes -r "$1"; then return; fi
    fail "The packages of $1 could not be installed; what was tried is above." \
        "Needed: pip for $PYTHON (Debian, Ubuntu: apt install python3-pip python3-venv) and a package index" \
        "that it can reach (behind a mirror: pip config set global.index-url …)."
}

# True when every version pinned in the first lock is pinned in the second too.
is_within() {
    awk '/^[A-Za-z0-9][^ ]*==/ { if (FILENAME == ARGV[1]) have[$1]; else if (!($1 in have)) missing = 1 }
         END { exit missing }' "$2" "$1"
}

installed() { [ -f "$VENV/$1" ] && cmp -s "$1" "$VENV/$1"; }

ensure() {
    PYTHON_ASKED=${PYTHON:-}
    if [ -z "$PYTHON_ASKED" ] && venv_fits && installed "$1"; then return; fi
    [ -f "$1" ] || fail "$1 is missing; make lock writes it."
    [ -w . ] || fail "This user cannot write in $(pwd), where $VENV belongs. Use a checkout of your own."
    find_python
    venv_fits || make_venv
    if installed "$1"; then return; fi
    say "Installing what $1 says …"
    rm -f "$VENV"/requirements*.lock
    install_lock "$1"
    if [ "$1" != requirements.lock ] && is_within requirements.lock "$1"; then
        cp requirements.lock "$VENV/"
    fi
    cp "$1" "$VENV/"
}

# Chromium as the system has it: what CHROMIUM names, else one of the usual names. tests/browser looks the same way.
find_browser() {
    if [ -n "${CHROMIUM:-}" ]; then command -v "$CHROMIUM" >/dev/null 2>&1; return; fi
    for BROWSER in chromium-headless-shell chromium chromium-browser google-chrome; do
        if command -v "$BROWSER" >/dev/null 2>&1; then return 0; fi
    done
    return 1
}

# Installing takes root; nobody is asked for a password here.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_browser() {
    command -v apt-get >/dev/null 2>&1 && as_root true 2>/dev/null || return 1
    say "Installing Chromium with apt-get, for the browser's tests …"
    # The lists may be old or missing; where only some of them cannot be fetched, the packages may be there all the same.
    as_root apt-get update -qq >&2 || true
    # The shell without windows does the same with a fifth less processor time; Debian 12 has it, and not every other.
    for BROWSER in chromium-headless-shell chromium; do
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
            "$BROWSER" fonts-noto-cjk fonts-liberation >&2 && return
    done
    return 1
}

browser() {
    if find_browser; then return; fi
    [ -z "${CHROMIUM:-}" ] || fail "CHROMIUM=$CHROMIUM: there is no such program."
    if install_browser && find_browser; then return; fi
    fail "There is no Chromium here: apt install chromium fonts-noto-cjk (Debian), or name one: CHROMIUM=/path/to/it"
}

case "${1:-}" in
    runtime) ensure requirements.lock ;;
    dev) ensure requirements-dev.lock ;;
    browser) browser ;;
    uv)
        shift
        find_python
        find_uv || fail "uv is missing and pip could not fetch it: $PYTHON -m pip install uv"
        exec "$UV" "$@"
        ;;
    *) fail "Usage: sh memoryhub/bootstrap.sh runtime|dev|browser|uv …" ;;
esac
