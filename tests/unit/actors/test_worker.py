"""How a worker is told to stop; workers themselves are in tests/integration."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from actors.worker import StopRequest


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
    monkeypatch.setattr("actors.worker._silence", lambda: silenced.append(True))
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
    monkeypatch.setattr("actors.worker._silence", silenced.set)
    reading, writing = os.pipe()
    stop = StopRequest()
    stop.ask()
    with stop.on_end_of_file(reading):
        os.close(writing)
        await asyncio.wait_for(silenced.wait(), 5)
    assert not stop.at_once.is_set()
    os.close(reading)


async def test_without_a_pipe_nothing_is_watched() -> None:
    with StopRequest().on_end_of_file(None):
        pass
