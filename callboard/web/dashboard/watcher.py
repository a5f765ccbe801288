"""One who looks at a namespace for all who watch it in this process: once in a second, and not at all when nobody does."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from callboard.broker.errors import BrokerError
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.operations.entries import fields_of
from callboard.broker.redis.operations.inspect import pages, paused, time_of
from callboard.broker.redis.operations.pulse import Pulse
from callboard.broker.redis.operations.views import Pause, PulseView
from callboard.runtime.runtime import RedisAgentRuntime

EVERY: Final = 1.0  # seconds between two looks at least
KEPT: Final = 720  # points of the history
POINT: Final = 5.0  # seconds between two of them: an hour in all
RATE_OVER: Final = 10.0  # seconds
MOST_ASKED: Final = (
    200  # questions that are read to be counted; more are counted with all that waits for an answer
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look has found.

    Attributes:
        view: Types and workers.
        rates: Messages handled in a second, by type; None: they were not watched long enough.
        questions: How many are open.
        asked: When the oldest was asked, server ms; None: none is open.
        paused: What is paused.
        problem: Why there was no look, since when the rest is old; "": it is of now.
    """

    view: PulseView
    rates: dict[str, float | None]
    questions: int
    asked: int | None
    paused: tuple[Pause, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """A moment of the history.

    Attributes:
        at: Server ms.
        rate: Messages handled in a second, of all types; None: not known.
        waiting: Messages that wait; None: not known.
        running: Handlers that run.
        by_type: What waits, by type.
    """

    at: int
    rate: float | None
    waiting: int | None
    running: int
    by_type: dict[str, int | None]


@dataclass
class Watcher:
    """Looks, and tells all who listen.

    Args:
        runtime: Reaches the server.
    """

    runtime: RedisAgentRuntime
    history: deque[Point] = field(default_factory=lambda: deque[Point](maxlen=KEPT))
    seen: Seen | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _listeners: int = 0
    _looking: asyncio.Task[None] | None = None
    _pulse: Pulse | None = None
    _types: tuple[str, ...] = ()
    _asked: list[bytes] = field(default_factory=list[bytes])
    _open: tuple[int, int | None] = (0, None)
    _counts: deque[tuple[float, dict[str, int]]] = field(default_factory=deque[tuple[float, dict[str, int]]])

    async def listen(self) -> AsyncGenerator[Sequence[Seen], None]:
        """What each look finds, for as long as somebody wants to know."""
        self._listeners += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_on())
        try:
            if self.seen is not None:
                yield [self.seen]
            while True:
                await self._changed.wait()
                assert self.seen is not None  # noqa: S101 - for type checkers: it changed
                yield [self.seen]
        finally:
            self._listeners -= 1
            if not self._listeners:
                await self.close()

    async def close(self) -> None:
        """Look no more."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        self._counts.clear()
        self.seen = None

    async def _look_on(self) -> None:
        while True:
            began = time.monotonic()
            try:
                self.seen = await self._look()
            except BrokerError as error:
                self.seen = self._without(str(error))
            self._note()
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            pause = EVERY if self._pulse is None else max(EVERY, self._pulse.every)
            await asyncio.sleep(max(0.0, pause - (time.monotonic() - began)))

    async def _look(self) -> Seen:
        await self.runtime.open()
        transport = self.runtime.transport
        view = await (await self._pulse_of(transport)).look()
        admin, keys = transport.admin, transport.keys
        questions, asked = await self._questions(transport)
        return Seen(
            view=view,
            rates=self._rates(view),
            questions=questions,
            asked=asked,
            paused=paused(fields_of(await admin.command("HGETALL", keys.of("paused")))),
        )

    async def _questions(self, transport: RedisTransport) -> tuple[int, int | None]:
        """How many are open, and when the oldest was asked."""
        admin, name = transport.admin, transport.keys.of("inputs")
        flat = await admin.command("ZRANGE", name, 0, MOST_ASKED - 1, "WITHSCORES")
        ids = flat[::2]
        if not ids:
            return 0, None
        if len(ids) == MOST_ASKED:
            return int(await admin.command("ZCARD", name)), time_of(flat[1])
        if ids != self._asked:
            # That a handler waits for a run stands there as well, and is no question.
            listed = await self.runtime.inputs.list()
            first = min((one.asked for one in listed), default=None)
            self._asked, self._open = ids, (len(listed), None if first is None else int(first * 1000))
        return self._open

    async def _pulse_of(self, transport: RedisTransport) -> Pulse:
        names = await pages(transport, "HSCAN", "types")
        types = tuple(sorted(name.decode(errors="replace") for name in names[::2]))
        if self._pulse is None or types != self._types:
            self._types, self._pulse = types, Pulse(transport, types)
        return self._pulse

    def _rates(self, view: PulseView) -> dict[str, float | None]:
        now, done = time.monotonic(), {one.type: one.done for one in view.types}
        while len(self._counts) > 1 and now - self._counts[1][0] > RATE_OVER:
            self._counts.popleft()
        self._counts.append((now, done))
        began, before = self._counts[0]
        if now - began < EVERY / 2:
            return dict.fromkeys(done)
        return {
            name: max(0, count - before[name]) / (now - began) if name in before else None
            for name, count in done.items()
        }

    def _without(self, problem: str) -> Seen:
        if self.seen is not None:
            last = self.seen
            return Seen(last.view, last.rates, last.questions, last.asked, last.paused, problem)
        return Seen(PulseView(at=0, types=(), workers=()), {}, 0, None, (), problem)

    def _note(self) -> None:
        seen = self.seen
        if seen is None or seen.problem:
            return
        if self.history and seen.view.at - self.history[-1].at < POINT * 1000:
            return
        waiting = [one.waiting for one in seen.view.types]
        known = [rate for rate in seen.rates.values() if rate is not None]
        self.history.append(
            Point(
                at=seen.view.at,
                rate=sum(known) if known else None,
                waiting=None if None in waiting else sum(one for one in waiting if one is not None),
                running=sum(one.running for one in seen.view.types),
                by_type={one.type: one.waiting for one in seen.view.types},
            )
        )


def told(seen: Seen) -> dict[str, Any]:
    """A look as plain data, for the page."""
    workers = [
        {
            "name": one.name,
            "lease_ms_left": one.lease_ms_left,
            "running": sum(one.runs.values()),
            "held": sum(one.holds.values()),
            "types": sorted({*one.runs, *one.holds}),
        }
        for one in seen.view.workers
    ]
    types = [
        {
            "type": one.type,
            "waiting": one.waiting,
            "running": one.running,
            "asking": one.asking,
            "done": one.done,
            "dead": one.dead,
            "died": one.died,
            "rate": seen.rates.get(one.type),
        }
        for one in seen.view.types
    ]
    pauses = [{"kind": one.kind, "name": one.name, "since": one.since, "by": one.by} for one in seen.paused]
    return {
        "at": seen.view.at,
        "types": types,
        "workers": workers,
        "questions": seen.questions,
        "asked": seen.asked,
        "paused": pauses,
        "problem": seen.problem,
    }
