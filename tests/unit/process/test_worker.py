"""Telling a worker to stop; workers themselves are in tests/integration."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from callboard.broker import BrokerSettings
from callboard.process.worker import StopRequest, WorkerProcessError, _passed_limit, resident_bytes


async def test_the_first_signal_drains_and_the_second_stops_at_once() -> None:
    stop = StopRequest()
    before = signal.getsignal(signal.SIGTERM)
    with stop.on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.drain.wait(), 5)
        assert not stop.at_once.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(stop.at_once.wait(), 5)
    assert signal.getsignal(signal.SIGTERM) is before


async def test_a_supervisor_that_is_gone_drains_once(monkeypatch: pytest.MonkeyPatch) -> None:
    silenced: list[bool] = []
    monkeypatch.setattr("callboard.process.worker._silence", lambda: silenced.append(True))
    reading, writing = os.pipe()
    stop = StopRequest()
    with stop.on_end_of_file(reading):
        assert not stop.drain.is_set()
        os.close(writing)
        await asyncio.wait_for(stop.drain.wait(), 5)
    assert silenced == [True]
    assert not stop.at_once.is_set()
    os.close(reading)


async def test_a_supervisor_that_goes_while_draining_does_not_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    silenced = asyncio.Event()
    monkeypatch.setattr("callboard.process.worker._silence", silenced.set)
    reading, writing = os.pipe()
    stop = StopRequest()
    stop.ask()
    with stop.on_end_of_file(reading):
        os.close(writing)
        await asyncio.wait_for(silenced.wait(), 5)
    assert not stop.at_once.is_set()
    os.close(reading)


async def test_without_a_pipe_nothing_is_watched() -> None:
    stop = StopRequest()
    with stop.on_end_of_file(None):
        await asyncio.sleep(0)
    assert (stop.drain.is_set(), stop.at_once.is_set()) == (False, False)


@pytest.mark.parametrize(
    ("settings", "messages", "says"),
    [
        ({}, 10**9, ""),
        ({"max_messages": 3}, 2, ""),
        ({"max_messages": 3}, 3, "handled 3 messages, max_messages is 3"),
        ({"max_memory": 10**15}, 3, ""),
        ({"max_memory": 1_000_000}, 3, "max_memory is 1 MB"),
    ],
)
def test_which_limit_was_passed(settings: dict[str, int], messages: int, says: str) -> None:
    passed = _passed_limit(BrokerSettings(**settings), messages)  # type: ignore[arg-type]
    assert (says in passed, bool(passed)) == (True, bool(says))


def test_a_limit_below_the_start_says_what_to_do() -> None:
    assert str(WorkerProcessError.of_memory(50_000_000, 87_000_000)) == (
        "this worker takes 87 MB before its first message and may take 50 MB: raise max_memory"
    )


def test_resident_memory_is_what_psutil_says() -> None:
    assert resident_bytes() == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)


GROWING = """
from callboard.process.worker import resident_bytes
before = resident_bytes()
used = b"x" * 50_000_000
print(resident_bytes() - before)
"""


def test_resident_memory_grows_with_what_is_used() -> None:
    """In a process of its own: one that has been larger takes 50 MB from what it has."""
    done = subprocess.run([sys.executable, "-c", GROWING], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 40_000_000


@pytest.mark.parametrize("text", [None, "", "nonsense", "1"])
def test_without_statm_resident_memory_is_the_most_that_it_has_been(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "statm"
    if text is not None:
        file.write_text(text, "ascii")
    monkeypatch.setattr("callboard.process.worker.STATM", file)
    assert resident_bytes() >= 0.5 * psutil.Process().memory_info().rss
