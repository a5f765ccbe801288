"""What failed beside others gets one more try, alone; what fails again has failed, and what needs it again and again too."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import second_look
from scripts.second_look import CACHE, DAYS, FAILED, RECORD
from tests.helpers.processes import ROOT

RIGHT = "def test_it() -> None:\n    assert True\n"
WRONG = "def test_it() -> None:\n    assert False\n"
TEST = "test_it.py::test_it"


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is in no clone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    CACHE.mkdir()


def _look(text: str, *failed: str) -> subprocess.CompletedProcess[str]:
    """The second look, after tests failed in the first one."""
    FAILED.parent.mkdir(parents=True, exist_ok=True)
    FAILED.write_text(json.dumps(dict.fromkeys(failed, True)))
    Path("test_it.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "scripts.second_look", "-n", "2", "--dist", "load", "test_it.py"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "-p xdist.plugin",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _record() -> list[str]:
    return (CACHE / RECORD).read_text().splitlines()


def _days_ago(days: int) -> str:
    return str(dt.datetime.now(dt.UTC).date() - dt.timedelta(days))


def test_a_test_that_passes_alone_has_passed_once() -> None:
    done = _look(RIGHT, TEST)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"passed alone, failed beside others: {TEST}\nLook at it" in done.stdout
    assert _record() == [f"{_days_ago(0)} {TEST}"]


def test_a_test_that_needs_it_again_has_failed() -> None:
    """As a race does, which passes alone nearly always."""
    assert second_look.needed_before([TEST]) == {}
    done = _look(RIGHT, TEST)
    assert done.returncode == 1
    assert f"{TEST}\nIt did so before, on {_days_ago(0)}: this run FAILS" in done.stdout
    assert _record() == [f"{_days_ago(0)} {TEST}"] * 2


def test_a_test_that_fails_alone_too_has_failed() -> None:
    done = _look(WRONG, TEST)
    assert done.returncode == 1
    assert f"FAILED {TEST}" in done.stdout
    assert "passed alone" not in done.stdout
    assert _record() == []


def test_many_failures_stand() -> None:
    done = _look(RIGHT, *(f"{TEST}[{number}]" for number in range(4)))
    assert (done.returncode, done.stdout) == (1, "")


def test_one_that_failed_in_an_earlier_run_with_other_arguments_did_not_need_it() -> None:
    Path("test_old.py").write_text(WRONG)
    done = _look(RIGHT, TEST, "test_old.py::test_it")
    assert done.returncode == 0
    assert _record() == [f"{_days_ago(0)} {TEST}"]


@pytest.mark.parametrize(
    ("days", "test", "counts"),
    [
        pytest.param(DAYS, TEST, True, id="just in time"),
        pytest.param(DAYS + 1, TEST, False, id="long ago"),
        pytest.param(1, "test_it.py::test_other", False, id="another test"),
    ],
)
def test_only_the_same_test_and_the_last_weeks_count(days: int, test: str, counts: bool) -> None:
    day = _days_ago(days)
    (CACHE / RECORD).write_text(f"{day} {test}\n")
    assert second_look.needed_before([TEST]) == ({TEST: [day]} if counts else {})


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_worktrees_of_a_clone_have_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (
        ("init", "-q", "clone"),
        ("-C", "clone", *author, "commit", "-q", "--allow-empty", "-m", "first"),
        ("-C", "clone", "worktree", "add", "-q", "--detach", "../worktree"),
    ):
        subprocess.run(("git", *words), check=True, capture_output=True)
    monkeypatch.chdir("clone")
    assert second_look.folder() == Path.cwd() / ".git"
    monkeypatch.chdir("../worktree")
    assert second_look.folder() == Path.cwd().parent / "clone" / ".git"
