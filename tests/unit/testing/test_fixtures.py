"""The fixtures, as a user has them: a test file of theirs in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CONFTEST = 'pytest_plugins = ["callboard.testing.fixtures"]\n'
ON_A_SERVER = """
import pytest

@pytest.fixture
def callboard_url(embedded_url):
    return embedded_url
"""
TESTS = """
import pytest
from pydantic import BaseModel
from callboard import ClosureAgent, TopicId, TypeSubscription
from callboard.testing import dead_letters, published

pytestmark = pytest.mark.asyncio
namespaces = set()

class Note(BaseModel):
    text: str

@pytest.fixture
def callboard_settings():
    return {"max_attempts": 2}

@pytest.mark.parametrize("number", [1, 2])
async def test_each_test_begins_with_nothing(runtime, harness, number):
    heard = []

    async def listen(agent, message: Note, ctx) -> None:
        heard.append(message.text)
        if len(heard) == 1:
            raise ValueError("once more")

    subscriptions = lambda: [TypeSubscription("notes", "listener")]
    await ClosureAgent.register_closure(runtime, "listener", listen, subscriptions=subscriptions)
    runtime.start()
    await runtime.publish_message(Note(text="a"), TopicId("notes", "x"))
    await runtime.stop_when_idle()
    assert heard == ["a", "a"]
    assert await published(runtime, "notes") == [Note(text="a")]
    assert await dead_letters(runtime) == []
    assert harness.namespace not in namespaces
    assert harness.url.startswith(SCHEME)
    namespaces.add(harness.namespace)
"""


@pytest.mark.parametrize(
    ("conftest", "scheme"),
    [(CONFTEST, "memory://"), (CONFTEST + ON_A_SERVER, "unix://")],
    ids=["memory", "server"],
)
def test_they_work_in_an_empty_folder(tmp_path: Path, conftest: str, scheme: str) -> None:
    (tmp_path / "conftest.py").write_text(conftest, "utf-8")
    (tmp_path / "test_mine.py").write_text(TESTS.replace("SCHEME", repr(scheme)), "utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        ".",
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
