"""The pulse of a namespace: what a board shows, by looks that cost the server little, however much there is.

`inspect.overview` looks at everything once; a `Pulse` is asked again and again. Of every agent type each look takes what is
counted already, and counts a part of what may be much: some of the streams that may hold something unread, and some of the
agents behind whom something is parked. The next look goes on there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from callboard.broker.redis.client.transport import RedisTransport

from .inspect import number, time_of
from .views import PulseView, TypePulse, WorkerPulse

STREAMS: Final = 50  # measured in one look, of all types together; each takes the server some 20 us
LEAST_STREAMS: Final = 10  # of one type
CALL: Final = (
    50e-6  # seconds of the server's time that a call takes, with as many streams as are looked at usually
)
SHARE: Final = 0.01  # of the server's time that looks may take


class Pulse:
    """Looks at agent types and workers, again and again; each look goes on where the one before it ended.

    What waits is exact while a type has no more than ten streams with something unread and no more than 200 agents behind
    whom something is parked. Of more it is the sum of what the last looks found.

    Args:
        transport: Where.
        types: The agent types to look at.

    Attributes:
        every: Seconds between two looks at least, so that they take a hundredth of the server's time at most.
    """

    def __init__(self, transport: RedisTransport, types: Iterable[str]) -> None:
        self._transport = transport
        self._rounds = {name: _Rounds() for name in types}
        self._streams = max(LEAST_STREAMS, STREAMS // max(1, len(self._rounds)))
        self.every = 0.0

    async def look(self) -> PulseView:
        """The present state, as far as one look sees it.

        Raises:
            BrokerError: The server does not answer.
        """
        at, workers, calls = await self._workers()
        answers = await asyncio.gather(*[self._ask(name, rounds) for name, rounds in self._rounds.items()])
        self.every = CALL * (calls + len(answers)) / SHARE
        types: list[TypePulse] = []
        for (name, rounds), answer in zip(self._rounds.items(), answers, strict=True):
            held = sum(worker.holds.get(name, 0) for worker in workers)
            running = sum(worker.runs.get(name, 0) for worker in workers if worker.lease_ms_left >= 0)
            types.append(rounds.take(name, answer, held, running))
        return PulseView(at=at, types=tuple(types), workers=tuple(workers))

    async def _ask(self, name: str, rounds: _Rounds) -> list[Any]:
        place = (name, str(rounds.fresh.place), str(self._streams), rounds.parked.place)
        answer: list[Any] = await self._transport.admin.run("pulse", ("type", *place))
        return answer

    async def _workers(self) -> tuple[int, list[WorkerPulse], int]:
        """The time, all workers, and how many calls that took."""
        found: list[WorkerPulse] = []
        calls = 0
        while True:
            at, total, *flat = await self._transport.admin.run("pulse", ("workers", str(len(found))))
            calls += 1
            found += [_worker(flat[i : i + 4], int(at)) for i in range(0, len(flat), 4)]
            if not flat or len(found) >= total:
                return int(at), found, calls


@dataclass(slots=True)
class _Fresh:
    """The streams of a type that may hold something unread, looked at in rounds.

    Attributes:
        place: Rank of the first one of the next look.
    """

    place: int = 0
    _found: dict[bytes, int] = field(default_factory=dict[bytes, int])
    _before: Mapping[bytes, int] = field(default_factory=dict[bytes, int])

    def take(self, total: int, flat: Sequence[Any]) -> int | None:
        """What is unread in all of them; None: the server can't say it of one of them."""
        self._found |= zip(flat[::2], flat[1::2], strict=True)
        self.place += len(flat) // 2
        # Streams that this round has not reached yet count as the round before it found them.
        counts = {**self._before, **self._found}
        if not flat or self.place >= total:
            counts, self._before, self._found, self.place = self._found, self._found, {}, 0
        return None if -1 in counts.values() else sum(counts.values())


@dataclass(slots=True)
class _Parked:
    """The entries that are parked behind agents of a type, counted in rounds.

    Attributes:
        place: Cursor of the next look.
    """

    place: str = "0"
    _found: int = 0
    _before: int = 0

    def take(self, cursor: bytes, count: int) -> int:
        self.place = cursor.decode()
        self._found += count
        if self.place == "0":
            self._before, self._found = self._found, 0
            return self._before
        return max(self._before, self._found)


@dataclass(slots=True)
class _Rounds:
    """What the looks at one type have found, and where the next one goes on."""

    fresh: _Fresh = field(default_factory=_Fresh)
    parked: _Parked = field(default_factory=_Parked)

    def take(self, name: str, answer: Sequence[Any], held: int, running: int) -> TypePulse:
        _, done, died, dead, early, asking, fresh, cursor, parked, *flat = answer
        unread = self.fresh.take(fresh, flat)
        given = held + early + self.parked.take(cursor, parked)
        unfinished = None if unread is None else unread + given
        if unfinished is not None:
            unfinished = max(0, unfinished - asking)
            running = min(running, unfinished)
        return TypePulse(
            type=name,
            waiting=None if unfinished is None else unfinished - running,
            running=running,
            asking=asking,
            done=number(done) or 0,
            dead=dead,
            died=number(died) or 0,
        )


def _worker(facts: Sequence[Any], now: int) -> WorkerPulse:
    name, lease_end, runs, held = facts
    return WorkerPulse(
        name=name.decode(errors="replace"),
        lease_ms_left=time_of(lease_end) - now,
        runs=_by_type(runs),
        holds=_by_type(held),
    )


def _by_type(words: bytes) -> dict[str, int]:
    listed = words.decode(errors="replace").split()
    return {name: number(count) or 0 for name, count in zip(listed[::2], listed[1::2], strict=False)}
