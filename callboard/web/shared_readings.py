"""Runs that many read at a door: each is read from the server once, and written once, for all of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from callboard.foundation import CallboardError
from callboard.runs.events import Event

from .event_stream import HEARTBEAT, written

KEPT: Final = 1_000  # events; a reader that is further behind reads by itself until it has caught up


@dataclass(slots=True)
class ShownEvent:
    """An event, and what is sent of it.

    Attributes:
        event: The event.
    """

    event: Event
    _data: bytes | None = None

    @property
    def number(self) -> int:
        """Its place in the run."""
        return self.event.number

    def data(self) -> bytes:
        """The event as it is sent; made once for all."""
        if self._data is None:
            self._data = written(self.event)
        return self._data


Read: TypeAlias = Callable[[int], AsyncGenerator[Sequence[Event], None]]
"""Reads a run behind a number, to its end."""

Portions: TypeAlias = AsyncGenerator[Sequence[ShownEvent], None]


class SharedReadings:
    """The readings of one process."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, bool], _Reading] = {}

    async def read(self, name: str, drafts: bool, after: int, read: Read) -> Portions:
        """The events of a run, as `read` gives them, and an empty portion where none came for a while.

        Args:
            name: Of the run; those who give the same name read the same.
            drafts: Whether drafts are among them.
            after: Number of the last event that the reader has; 0: none.
            read: Reads the run where nobody does yet, and where the reader is behind the others.
        """
        key, place = (name, drafts), after
        while True:
            reading = self._open.get(key)
            if reading is None:
                reading = self._open[key] = _Reading(place, read)
            if reading.has(place):
                async with aclosing(self._with_others(key, reading, place)) as portions:
                    async for portion in portions:
                        place = portion[-1].number if portion else place
                        yield portion
                if reading.is_over and place == reading.last:
                    return
            async with aclosing(read(place)) as alone:
                async for events in alone:
                    place = events[-1].number if events else place
                    yield [ShownEvent(event) for event in events]
                    if reading.is_broken or reading.has(place):
                        break
                else:
                    return

    async def _with_others(self, key: tuple[str, bool], reading: _Reading, place: int) -> Portions:
        reading.readers += 1
        try:
            async with aclosing(reading.behind(place)) as portions:
                async for portion in portions:
                    yield portion
        finally:
            reading.readers -= 1
            if not reading.readers or reading.is_broken:
                if self._open.get(key) is reading:
                    del self._open[key]
                await reading.close()


@dataclass(slots=True)
class _Reading:
    """One reading, and the last events that it has found. It goes on when its fastest reader wants more.

    Attributes:
        begins: The number behind which it has all events.
        last: The number of its last event.
        readers: How many there are.
        is_over: Whether the run has ended, and all of it is here.
        is_broken: Whether it goes on no more, for another reason: each of its readers goes on alone, and hears it.
    """

    begins: int
    read: Read
    last: int = field(init=False)
    readers: int = 0
    is_over: bool = False
    is_broken: bool = False
    _kept: deque[Sequence[ShownEvent]] = field(default_factory=deque[Sequence[ShownEvent]])
    _count: int = 0  # of events that are kept
    _first: int = 0  # which portion of all is the first that is kept
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _grown: asyncio.Event = field(default_factory=asyncio.Event)
    _going_on: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.last = self.begins

    def has(self, place: int) -> bool:
        """Whether it has, or will have, all that comes behind a number."""
        return not self.is_broken and self.begins <= place <= self.last

    async def behind(self, place: int) -> Portions:
        """What comes behind a number; it ends with the run, or when this reader has fallen too far behind."""
        at = self._first
        if self._going_on is None:
            self._going_on = asyncio.create_task(self._go_on())
        while self._first <= at:
            if at - self._first < len(self._kept):
                portion = self._kept[at - self._first]
                at += 1
                if portion[0].number <= place <= self.last:
                    portion = [one for one in portion if one.number > place]
                if portion:
                    place = -1
                    yield portion
            elif self.is_over or self.is_broken:
                return
            else:
                self._wanted.set()
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await self._grown.wait()
                except TimeoutError:
                    yield ()

    async def _go_on(self) -> None:
        try:
            async with aclosing(self.read(self.begins)) as portions:
                async for events in portions:
                    if events:
                        self._take([ShownEvent(event) for event in events])
                        await self._wanted.wait()
            self.is_over = True
        except CallboardError:
            self.is_broken = True  # each of the readers asks by itself, and is told the same
        finally:
            self.is_broken = not self.is_over
            self._grown.set()

    def _take(self, portion: Sequence[ShownEvent]) -> None:
        if portion[0].number <= self.last:
            # The server has lost what was read from this number on, and gives it again.
            self._forget(len(self._kept))
            self.begins = portion[0].number - 1
        self._kept.append(portion)
        self._count += len(portion)
        self.last = portion[-1].number
        while self._count > KEPT and len(self._kept) > 1:
            self._forget(1)
        self._wanted.clear()
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    def _forget(self, portions: int) -> None:
        for _ in range(portions):
            gone = self._kept.popleft()
            self._first += 1
            self._count -= len(gone)
            self.begins = gone[-1].number

    async def close(self) -> None:
        """End it."""
        if self._going_on is not None:
            self._going_on.cancel()
            await asyncio.gather(self._going_on, return_exceptions=True)
