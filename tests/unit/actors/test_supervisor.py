"""The policy, the words and the environment of a supervisor; its processes are in tests/integration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import actors
from actors.supervisor import (
    WATCHED_PIPE,
    RestartPolicy,
    describe_exit,
    environment,
    worker_command,
)


def test_pauses_double_up_to_the_cap_and_end() -> None:
    policy = RestartPolicy(limit=5, base=1.0, cap=5.0)
    assert [policy.pause(number) for number in range(1, 7)] == [1.0, 2.0, 4.0, 5.0, 5.0, None]
    assert RestartPolicy(limit=0).pause(1) is None


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "ended by itself"),
        (3, "ended with exit code 3"),
        (-9, "was killed by SIGKILL"),
        (-250, "was killed by signal 250"),
    ],
)
def test_endings(code: int, text: str) -> None:
    assert describe_exit(code) == text


def test_the_command_of_a_worker_has_no_url() -> None:
    command = worker_command("shop:app", "clerk", namespace="n", grace=2.5)
    assert command[3:] == (
        *("actors.cli", "worker", "shop:app", "--type", "clerk"),
        *("--namespace", "n", "--grace", "2.5", "--watch", WATCHED_PIPE),
    )


def test_the_environment_leads_to_the_server_and_to_this_package() -> None:
    before = {"A": "1", "REDIS_URL": "redis://old", "PYTHONPATH": "/elsewhere"}
    made = environment("redis://:secret@h", before)
    assert (made["A"], made["CALLBOARD_URL"], "REDIS_URL" in made) == ("1", "redis://:secret@h", False)
    root = Path(actors.__file__).resolve().parent.parent
    if root.name != "site-packages":
        assert made["PYTHONPATH"] == os.pathsep.join([str(root), "/elsewhere"])


def test_without_a_url_the_embedded_server_is_used() -> None:
    made = environment(None, {"CALLBOARD_URL": "redis://old", "REDIS_URL": "redis://old"})
    assert not {"CALLBOARD_URL", "REDIS_URL"} & set(made)
