"""Readings that many share: whoever comes when, and however slow, gets what one who reads alone gets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from callboard.foundation import CallboardError
from callboard.runs.events import Event, SystemEvent
from callboard.web import shared_readings
from callboard.web.shared_readings import SharedReadings
from tests.helpers.eventually import eventually


class GoneError(CallboardError):
    template = "the run is gone"


class Run:
    """Events that come one after the other; it counts who reads them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.readers = 0
        self.begun = 0
        self.is_over = False
        self.error: Exception | None = None
        self._changed = asyncio.Event()

    def add(self, *numbers: int) -> None:
        self.events += [SystemEvent(number=number, value=f"{number}") for number in numbers]
        self._tell()

    def end(self, error: Exception | None = None) -> None:
        self.is_over, self.error = True, error
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def read(self, after: int) -> AsyncGenerator[Sequence[Event], None]:
        self.readers += 1
        self.begun += 1
        at = next((at for at, event in enumerate(self.events) if event.number > after), len(self.events))
        try:
            while True:
                changed = self._changed
                if portion := self.events[at : at + 7]:
                    at += len(portion)
                    yield portion
                elif self.error is not None:
                    raise self.error
                elif self.is_over:
                    return
                else:
                    await changed.wait()
        finally:
            self.readers -= 1


class Reader:
    """One who reads to the end, or so many events."""

    def __init__(self, readings: SharedReadings, run: Run, after: int = 0, most: int = 10**9) -> None:
        self.got: list[int] = []
        self.pause = 0
        self.task = asyncio.create_task(self._read(readings, run, after, most))

    async def _read(self, readings: SharedReadings, run: Run, after: int, most: int) -> None:
        async with aclosing(readings.read("run", False, after, run.read)) as portions:
            async for portion in portions:
                self.got += [one.number for one in portion]
                for _ in range(self.pause):
                    await asyncio.sleep(0)
                if len(self.got) >= most:
                    return


async def test_all_read_by_one_and_nobody_reads_when_all_have_gone() -> None:
    readings, run = SharedReadings(), Run()
    run.add(1, 2, 3)
    readers = [Reader(readings, run) for _ in range(50)]
    await eventually(lambda: all(one.got == [1, 2, 3] for one in readers))
    assert (run.readers, run.begun) == (1, 1)
    late = Reader(readings, run, after=2)
    await eventually(lambda: late.got == [3])
    run.add(4)
    await eventually(lambda: late.got == [3, 4])
    assert run.begun == 1
    for one in (*readers, late):
        one.task.cancel()
    await asyncio.gather(*(one.task for one in (*readers, late)), return_exceptions=True)
    await eventually(lambda: run.readers == 0)
    again = Reader(readings, run, after=4)
    run.add(5)
    run.end()
    await again.task
    assert again.got == [5]


async def test_what_is_sent_is_made_once() -> None:
    readings, run = SharedReadings(), Run()
    run.add(1)
    run.end()
    found: list[Any] = []
    for _ in range(2):
        async with aclosing(readings.read("run", False, 0, run.read)) as portions:
            first = [one async for portion in portions for one in portion]
            found.append(first)
    assert found[0][0].data() is found[0][0].data()
    assert found[0][0].data() == found[1][0].data()


async def test_one_who_is_far_behind_reads_alone_and_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_readings, "KEPT", 20)
    readings, run = SharedReadings(), Run()
    run.add(1)
    fast, slow = Reader(readings, run), Reader(readings, run)
    slow.pause = 200
    await eventually(lambda: slow.got == [1])
    for number in range(2, 300):
        run.add(number)
        await asyncio.sleep(0)
    early = Reader(readings, run)
    run.end()
    await asyncio.gather(fast.task, slow.task, early.task)
    for one in (fast, slow, early):
        assert one.got == list(range(1, 300))


async def test_what_a_server_gives_again_is_given_again() -> None:
    readings, run = SharedReadings(), Run()
    run.add(1, 2, 3)
    readers = [Reader(readings, run) for _ in range(3)]
    await eventually(lambda: all(one.got == [1, 2, 3] for one in readers))
    run.add(2, 3, 4)
    run.end()
    await asyncio.gather(*(one.task for one in readers))
    assert {tuple(one.got) for one in readers} == {(1, 2, 3, 2, 3, 4)}


async def test_an_error_is_heard_by_each() -> None:
    readings, run = SharedReadings(), Run()
    run.add(1)
    readers = [Reader(readings, run) for _ in range(3)]
    await eventually(lambda: all(one.got == [1] for one in readers))
    run.end(GoneError())
    results = await asyncio.gather(*(one.task for one in readers), return_exceptions=True)
    assert [type(one) for one in results] == [GoneError] * 3
    assert run.readers == 0


@pytest.mark.parametrize("seed", range(20))
async def test_whoever_comes_and_goes_has_each_event_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_readings, "KEPT", 15)
    dice = random.Random(seed)
    readings, run = SharedReadings(), Run()
    readers: list[tuple[int, Reader]] = []
    last = 0
    for _ in range(150):
        if dice.random() < 0.3:
            after = dice.choice([0, last, dice.randint(0, max(1, last))])
            reader = Reader(readings, run, after, dice.choice([3, 10**9]))
            reader.pause = dice.choice([0, 0, 1, 30])
            readers.append((after, reader))
        if dice.random() < 0.1 and readers:
            dice.choice(readers)[1].task.cancel()
        for _ in range(dice.randint(0, 4)):
            last += dice.randint(1, 3)
            run.add(last)
        for _ in range(dice.randint(0, 5)):
            await asyncio.sleep(0)
    run.end()
    await asyncio.gather(*(reader.task for _, reader in readers), return_exceptions=True)
    numbers = [event.number for event in run.events]
    for after, reader in readers:
        whole = [number for number in numbers if number > after]
        is_whole = reader.task.cancelled() or len(reader.got) >= 3
        assert reader.got == whole[: len(reader.got)]
        assert is_whole or reader.got == whole
    assert run.readers == 0
