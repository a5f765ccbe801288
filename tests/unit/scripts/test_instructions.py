"""`scripts/bench instructions`: instructions of a message."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts.benchmarks import callgrind, instructions
from scripts.benchmarks.callgrind import CallgrindError, counted
from scripts.benchmarks.cost import Work
from scripts.benchmarks.instructions import Counts, Spent, lines, per_message

LOG = """\
==7== Command: redis-server
==7==
==7== Events    : Ir
==7== Collected : 1200
==7==
==7== Collected : 34
"""


def test_what_callgrind_says_at_the_end_is_the_sum_of_all_processes() -> None:
    assert counted(LOG) == 1234


def test_a_program_that_was_killed_has_no_count() -> None:
    with pytest.raises(CallgrindError, match="it says: ==7== Command"):
        counted(LOG.partition("Events")[0])


def test_what_a_process_costs_without_messages_does_not_count() -> None:
    few, many = Spent(1_000_100, 50_300), Spent(1_000_500, 50_700)
    assert per_message(few, many, Counts(1, 5)) == Spent(100, 100)


def test_a_row_for_each_spender() -> None:
    assert lines("ask", Spent(1234.5, 10), None) == [
        "ask        process       1,234",
        "ask        server           10",
    ]
    _, server = lines("ask", Spent(1, 150), Spent(1, 100))
    assert server.split() == ["ask", "server", "150", "100", "1.500"]


def test_without_valgrind_it_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CallgrindError, match="apt-get install valgrind"):
        callgrind.callgrind(Path(), "process")

    def fails(_: Path, way: str, topics: int, patience: float) -> Spent:
        raise CallgrindError(callgrind.MISSING)

    monkeypatch.setattr(instructions, "measured", fails)
    assert instructions.main(["--only", "ask"]) == 1
    assert "apt-get install valgrind" in capsys.readouterr().err


def test_a_way_that_there_is_not_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        instructions.main(["--only", "ask,asl"])
    assert "there is no asl; there are publish," in capsys.readouterr().err
    with pytest.raises(SystemExit):
        instructions.main(["--only", "drive,ask", "--topics", "3"])
    assert "only publish, handle, drive go over topics" in capsys.readouterr().err


def test_a_run_that_does_not_end_is_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs(checkout: Path, work: Work, patience: float) -> Spent:
        raise subprocess.TimeoutExpired("callgrind", patience)

    monkeypatch.setattr(instructions, "_spent", hangs)
    assert instructions.main(["--only", "ask", "--within", "7"]) == 1
    assert "ask with 500 did not end within 7 s: wait until" in capsys.readouterr().err
