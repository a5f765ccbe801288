"""The command and the environment of a worker process."""

from __future__ import annotations

import os
from pathlib import Path

import callboard
from callboard.process.starting import WATCHED_PIPE
from callboard.process.supervisor import environment, worker_command


def test_the_command_of_a_worker_has_no_url() -> None:
    command = worker_command("shop:app", ["clerk", "till"], namespace="n", grace=2.5)
    assert command[3:] == (
        *("callboard", "worker", "shop:app", "--type", "clerk", "--type", "till"),
        *("--namespace", "n", "--grace", "2.5", "--watch", WATCHED_PIPE),
    )


def test_the_environment_leads_to_the_server_and_to_this_package() -> None:
    before = {"A": "1", "REDIS_URL": "redis://old", "PYTHONPATH": "/elsewhere"}
    made = environment("redis://:secret@h", before)
    assert (made["A"], made["CALLBOARD_URL"], "REDIS_URL" in made) == ("1", "redis://:secret@h", False)
    root = Path(callboard.__file__).resolve().parent.parent
    if root.name != "site-packages":
        assert made["PYTHONPATH"] == os.pathsep.join([str(root), "/elsewhere"])


def test_without_a_url_the_embedded_server_is_used() -> None:
    made = environment(None, {"CALLBOARD_URL": "redis://old", "REDIS_URL": "redis://old"})
    assert not {"CALLBOARD_URL", "REDIS_URL"} & set(made)
