"""A lane for tests of the consumer, and a consumer at work: the server's part is played by the test."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple
from unittest import mock

from callboard.broker import BrokerSettings, intake as pace
from callboard.broker.consumer import Consumer
from callboard.broker.envelope import Delivery, Envelope
from callboard.broker.errors import ConnectionLostError
from callboard.broker.intake import PORTION
from callboard.broker.mailbox import ConsumedType, Ending, Incarnation, Pull, Rung, Turn
from callboard.broker.outcome import Outcome
from callboard.broker.redis.client.wire import pack
from callboard.broker.redis.library import Mark, marks_of
from tests.helpers.commits import Done, as_done, is_sendable

from .eventually import eventually
from .fake_host import FakeHost, body_of

_numbers = itertools.count(1)
Behaviour = Callable[[Delivery], Awaitable[Outcome]]


def entry(key: str, body: str, agent_type: str = "counter", *, tries: bytes = b"", size: int = 0) -> Delivery:
    """A delivery as a server gives it. Tests know it by its body."""
    number = next(_numbers)
    given = f"1763700000000-{number}".encode()
    stream = b"topic:visits"
    text = body.encode() + bytes(size)
    envelope = Envelope(f"m{number}", "Visit", key, None, 1, text)
    return Delivery(agent_type.encode(), stream, given, tries, key.encode(), envelope)


class Call(NamedTuple):
    """One turn as the server saw it: what ended and how, and what was asked for."""

    done: list[tuple[str, str]]
    wants: dict[str, int]
    held: int
    scan: bool
    accept: int
    types: tuple[str, ...] = ()


class Failure(NamedTuple):
    """How a turn goes wrong, and whether it is carried out all the same."""

    error: Exception
    carried_out: bool = False


class FakeLane:
    """Keeps what is queued and who holds it, as the scripts do, for one worker.

    Attributes:
        queue: entries that wait to be taken.
        held: what the worker holds by reference.
        calls: every turn.
        committed, buried, returned: bodies, in the order in which they came.
        parked: what waits behind agents of which the worker gave entries back and holds others.
        answering: while it is not set, turns are carried out and not answered.
        failures, resync_errors, reconnect_errors, join_errors, leave_error: what goes wrong next.
        most_bytes: what of a turn's commits passes before the timeout; None: everything.
        suspects_wait, suspicion: of the answers.
        polls, heard: for how many seconds it waited for a bell, and for the bells of which types.
    """

    def __init__(self) -> None:
        self.worker = ""
        self.queue: deque[Delivery] = deque()
        self.held: dict[tuple[bytes, bytes, bytes], Delivery] = {}
        self.calls: list[Call] = []
        self.dones: list[Done] = []
        self.committed: list[str] = []
        self.buried: list[str] = []
        self.returned: list[str] = []
        self.parked: dict[bytes, deque[Delivery]] = {}
        self.answering = asyncio.Event()
        self.answering.set()
        self.failures: deque[Failure | None] = deque()
        self.resync_errors: deque[Exception] = deque()
        self.reconnect_errors: deque[Exception] = deque()
        self.join_errors: deque[Exception] = deque()
        self.leave_error: Exception | None = None
        self.most_bytes: int | None = None
        self.suspects_wait = False
        self.suspicion = 0
        self.next_due_ms: int | None = None
        self.most_held = 0
        self.joins = 0
        self.resyncs = 0
        self.reconnects = 0
        self.announced: list[str] = []
        self.bells: asyncio.Queue[str | None] = asyncio.Queue()
        self.polls: list[float] = []
        self.heard: list[list[str]] = []
        self.rung: list[str] = []
        self.left = self.closed = False

    def offer(self, *entries: Delivery) -> None:
        self.queue.extend(entries)

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.worker)

    async def join(self, agent_types: Sequence[str], accepts: Mapping[str, int]) -> None:
        if self.join_errors:
            raise self.join_errors.popleft()
        self.joins += 1
        self.worker = f"here:1:{self.joins}"

    async def turn(self, endings: Sequence[Ending], pull: Pull) -> Turn:
        done = [as_done(*ending, 60.0) for ending in endings]
        for one in done:
            pack(one.extras)  # as the real lane does before anything leaves
        shown = [(body_of(one.delivery), one.mode) for one in done]
        wants = {each.name: pull.room for each in pull.types if pull.room}
        types = tuple(each.name for each in pull.types)
        self.calls.append(Call(shown, wants, pull.held, pull.scan, pull.accept, types))
        failure = self.failures.popleft() if self.failures else None
        if self.most_bytes is not None and sum(len(pack(one.extras)) for one in done) > self.most_bytes:
            failure = Failure(ConnectionLostError("redis://test", "no answer within 10 s"))
        if failure is not None and not failure.carried_out:
            raise failure.error
        given = self._hand_over(self._end(done), pull.accept)
        given += [delivery for name in wants for delivery in self._take(name, pull.room)]
        more = any(one.raw_type.decode() in wants for one in self.queue)
        suspects = self.suspects_wait, "", self.suspicion
        answer = Turn(given, 1_763_700_000_000, self.next_due_ms, more, *suspects)
        await self.answering.wait()
        if failure is not None:
            raise failure.error
        return answer

    def _end(self, done: Sequence[Done]) -> list[bytes]:
        """Commits these; returns the keys of the agents that are free."""
        lists = {
            Mark.COMMIT: self.committed,
            Mark.DEAD_LETTER: self.buried,
            Mark.RETRY: self.returned,
            Mark.RELEASE: self.returned,
        }
        free = set()
        for one in done:
            assert self.held.pop(one.delivery.reference, None) is not None, f"{one} is not held"
            lists[marks_of(one.mode)[0]].append(body_of(one.delivery))
            if Mark.MORE not in one.mode:
                free.add((one.delivery.raw_type, one.delivery.raw_key))
            if marks_of(one.mode) == [Mark.RELEASE, Mark.MORE]:
                self.parked.setdefault(one.delivery.raw_key, deque()).append(one.delivery)
        self.dones += done
        kept = {(delivery.raw_type, delivery.raw_key) for delivery in self.held.values()}
        assert not free & kept, "a key was let go of which the worker holds more"
        ended = {(one.delivery.raw_type, one.delivery.raw_key) for one in done}
        assert ended <= free | kept, "a key was kept of which the worker holds nothing"
        return [key for _, key in free]

    def _hand_over(self, free: Sequence[bytes], accept: int) -> list[Delivery]:
        """What is parked behind these goes to the worker, or to whoever asks next."""
        given: list[Delivery] = []
        for key in free:
            waiting = self.parked.get(key, deque())
            count = min(PORTION, accept - len(given), len(waiting))
            given += [waiting.popleft() for _ in range(count)]
            if not count or not waiting:
                self.queue.extendleft(reversed(self.parked.pop(key, deque())))
        self.held.update({one.reference: one for one in given})
        return given

    def can_send(self, delivery: Delivery, outcome: Outcome) -> bool:
        return is_sendable(as_done(delivery, outcome, True, 60.0))

    def _take(self, agent_type: str, room: int) -> list[Delivery]:
        mine = [one for one in self.queue if one.raw_type.decode() == agent_type][:room]
        for one in mine:
            self.queue.remove(one)
            if waiting := self.parked.get(one.raw_key):
                waiting.append(one)
            else:
                self.held[one.reference] = one
        mine = [one for one in mine if one.reference in self.held]
        self.most_held = max(self.most_held, len(self.held))
        return mine

    async def resync(self) -> list[Delivery]:
        self.resyncs += 1
        if self.resync_errors:
            raise self.resync_errors.popleft()
        return [_copy(delivery) for delivery in self.held.values()]

    async def announce(self, agent_types: Sequence[str]) -> None:
        self.announced = list(agent_types)

    async def wait_for_bell(self, agent_types: Sequence[str], seconds: float) -> str | None:
        self.polls.append(seconds)
        self.heard.append(list(agent_types))
        return await self.bells.get()

    async def turn_at_bell(self, agent_types: Sequence[str], seconds: float, pull: Pull) -> Rung:
        before = self._numbers_used()
        rang = await self.wait_for_bell(agent_types, seconds)
        if self._numbers_used() != before:
            return Rung(rang, None)
        return Rung(rang, await self.turn((), pull))

    def _numbers_used(self) -> tuple[int, int, int]:
        return len(self.calls), self.resyncs, self.joins

    async def ring(self, agent_type: str) -> None:
        self.rung.append(agent_type)

    async def leave(self) -> None:
        if self.leave_error is not None:
            raise self.leave_error
        self.left = True

    async def reconnect(self, within: float) -> None:
        self.reconnects += 1
        await asyncio.sleep(0)
        if self.reconnect_errors:
            raise self.reconnect_errors.popleft()

    def close(self) -> None:
        self.closed = True


def _copy(delivery: Delivery) -> Delivery:
    """What a resync gives is another object."""
    made = entry(delivery.raw_key.decode(), "", delivery.raw_type.decode(), tries=delivery.tries)
    made.entry, made.envelope = delivery.entry, delivery.envelope
    made.state_unknown = True
    return made


class Work:
    """A consumer at work with a lane and a host of the test's."""

    def __init__(self, settings: BrokerSettings, types: Sequence[ConsumedType]) -> None:
        self.lane = FakeLane()
        self.host = FakeHost()
        self.consumer = Consumer(self.lane, types, self.host, settings)
        self.task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        self.task = asyncio.create_task(self.consumer.run())
        return self.task

    def offer(self, *entries: Delivery) -> None:
        """Entries are there to be taken now."""
        self.lane.offer(*entries)
        self.consumer.nudge()

    async def runs(self, *bodies: str) -> None:
        """Waits until handlers of all of these have begun."""
        await eventually(lambda: set(bodies) <= set(self.host.started), what=lambda: self.host.started)

    async def holds(self, number: int) -> None:
        """Waits until it holds so many: a worker that has just begun takes more only when what it has runs."""
        await eventually(lambda: len(self.lane.held) == number, what=lambda: self.lane.calls)

    async def committed(self, *bodies: str) -> None:
        """Waits until exactly these are committed, in this order."""
        wanted = list(bodies)
        await eventually(lambda: self.lane.committed == wanted, what=lambda: self.lane.committed)

    async def sees_call(self, condition: Callable[[Call], Any], since: int = 0) -> Call:
        """Waits for a turn of which this is true."""

        def found() -> list[Call]:
            return [call for call in self.lane.calls[since:] if condition(call)]

        return (await eventually(found, what=lambda: self.lane.calls[-5:]))[0]

    async def quiet(self) -> None:
        """Waits until the consumer waits for the bell and nothing is held."""
        await eventually(lambda: self.lane.polls and self.consumer.is_idle)

    def modes(self) -> dict[str, str]:
        """How each body ended, its last time."""
        return {body: mode for call in self.lane.calls for body, mode in call.done}


@contextlib.asynccontextmanager
async def working(
    *types: ConsumedType, start: bool = True, late: float = math.inf, **settings: Any
) -> AsyncIterator[Work]:
    """A consumer that works until the end of the block, then drains; it must leave no task behind.

    Args:
        types: what it works for.
        start: False: the test does.
        late: `pace.LATE`. By default a machine that stands still for a moment is no handler that blocks the event loop:
            what waited behind it would go back, and no other worker is here to take it.
        settings: of the broker.
    """
    with mock.patch.object(pace, "LATE", late):
        async with _working(*types, start=start, **settings) as work:
            yield work


@contextlib.asynccontextmanager
async def _working(*types: ConsumedType, start: bool, **settings: Any) -> AsyncIterator[Work]:
    before = asyncio.all_tasks()
    work = Work(BrokerSettings(**settings), types or (ConsumedType("counter"),))
    if start:
        work.start()
        await eventually(lambda: work.lane.calls)
    try:
        yield work
    finally:
        if work.task is not None and not work.task.done():
            work.lane.answering.set()
            work.consumer.drain()
            work.consumer.give_up()
            await asyncio.wait({work.task}, timeout=10)
    assert work.task is None or work.task.done(), "the consumer does not end"
    assert asyncio.all_tasks() <= before
