"""The name of a process: random, its own, and given by its supervisor if there is one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from callboard.broker.errors import SettingsError
from callboard.broker.redis.client import identity


@pytest.fixture(autouse=True)
def no_token_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_token", "")


def test_a_process_keeps_its_name_and_has_a_random_part() -> None:
    name = identity.own_name()
    assert name == identity.own_name()
    host, pid, token = name.rsplit(":", 2)
    assert (host, int(pid), len(token)) == (os.uname().nodename, os.getpid(), 8)
    assert len({identity.new_token() for _ in range(100)}) == 100


def test_a_supervisor_gives_the_token_and_no_further_program_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(identity.TOKEN_VARIABLE, "k3x0p9qa")
    assert identity.own_name() == identity.process_name(os.getpid(), "k3x0p9qa")
    assert identity.TOKEN_VARIABLE not in os.environ


@pytest.mark.parametrize("given", ["short", "k3x0:9qa", "K3X0P9QA", "k3x0p9qa1"])
def test_what_is_no_token_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(identity.TOKEN_VARIABLE, given)
    with pytest.raises(SettingsError, match="leave it out"):
        identity.own_name()


@pytest.mark.parametrize("before", [True, False], ids=["after", "before the first use"])
def test_a_forked_process_does_not_share_its_parents_token(before: bool) -> None:
    """Forked in a process of its own: the tests' own has threads."""
    code = (
        "import os\n"
        "from callboard.broker.redis.client.identity import own_name\n"
        f"{'own_name()' if before else ''}\n"
        "pid = os.fork()\n"
        "os.write(1, (own_name().rpartition(':')[2] + chr(10)).encode())\n"
        "if pid: os.waitpid(pid, 0)\n"
        "else: os._exit(0)\n"
    )
    environ = {**os.environ, identity.TOKEN_VARIABLE: "k3x0p9qa"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    tokens = done.stdout.split()
    assert len(set(tokens)) == len(tokens) == 2
    assert "k3x0p9qa" in tokens
