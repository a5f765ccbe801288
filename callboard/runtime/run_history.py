"""The runs of a namespace: their list, and what happened in one, live or to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeAlias

from callboard.broker import MessageRegistry
from callboard.broker.errors import BrokerError, ConnectionLostError
from callboard.broker.limits import Limits
from callboard.broker.redis.client.run_reader import RunReader, RunRecord, record_of
from callboard.broker.redis.client.transport import RedisTransport, literally
from callboard.broker.redis.keys import RUNS, run as run_suffix
from callboard.broker.redis.operations.inspect import pages, time_of
from callboard.errors import SettingValueError

logger = logging.getLogger("callboard.actors")

PORTION: Final = 50
"""Entries that are decoded together. More would live so long that Python looks through all it has, again and again."""
MOST_TOLD: Final = 1000  # different problems that are said


class RunEntry(NamedTuple):
    """One event of a run.

    Attributes:
        number: Its place: numbers rise, and none is given twice. Some are missing: those of drafts that were settled, and
            of the oldest events when there are more than `run_events`.
        at: When it was written, by the server's clock, in UTC.
        event: The message that was written.
        tag: Of a draft, which is there as long as the work that it shows is under way; "" when it is none.
    """

    number: int
    at: datetime
    event: Any
    tag: str


class RunEvents:
    """The events of a run, as `async for entry in ...`; made by `runtime.read_run`.

    Any number may read, in any process; each keeps its own place, and the server knows nothing of them. A reader whose
    connection breaks goes on behind the last entry that it has. It ends when the loop is left, and with the runtime; with
    ``async with runtime.read_run(...) as events:`` it connects at that line, and goes on where the last loop was left.

    An event that can't be read, because its class is not known here or its bytes are broken, is passed over with a
    warning. When the server lost the last of its data, or the run was deleted and begun again, numbers are given
    again: an entry whose number is not above the one before says that what was read from it on did not happen.

    Args:
        connected: connects, and returns the connection.
        registry: message classes.
        run: id of the run.
        after: number of the last entry that is known already; 0: none.
        live: wait for what comes, without end.
    """

    def __init__(
        self,
        connected: Callable[[], Awaitable[RedisTransport]],
        registry: MessageRegistry,
        run: str,
        after: int,
        live: bool,
    ) -> None:
        self._connected = connected
        self._registry = registry
        self._run = run
        self._after = after
        self._live = live
        self._limits = Limits()
        self._reader: RunReader | None = None
        self._found: list[RunRecord] = []  # turned round: the next one is the last
        self._told: set[str] = set()
        self._is_held = False
        self._is_over = False

    async def __aenter__(self) -> Self:
        self._is_held = True
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def __aiter__(self) -> AsyncGenerator[RunEntry, None]:
        return self._entries()

    async def _entries(self) -> AsyncGenerator[RunEntry, None]:
        try:
            reader = await self._open()
            while not self._is_over:
                records = await reader.read(self._live) if not self._found else self._found
                if records is None:
                    return
                if records is not self._found:
                    self._found = records[::-1]
                while self._found and not self._is_over:
                    entry = self._read(self._found.pop())
                    if entry is not None:
                        yield entry
        except ConnectionLostError:
            if not self._is_over:
                raise
        finally:
            if not self._is_held:
                self.end()

    async def portions(self) -> AsyncGenerator[list[RunEntry], None]:
        """The same events as they come from the server, many at once where many are there; instead of a loop over them.

        What is under way in a loop of entries comes first.
        """
        try:
            reader = await self._open()
            while not self._is_over:
                if not self._found:
                    records = await reader.read(self._live)
                    if records is None:
                        return
                    self._found = records[::-1]
                portion, self._found = self._found[-PORTION:], self._found[:-PORTION]
                yield [entry for record in portion[::-1] if (entry := self._read(record)) is not None]
        except ConnectionLostError:
            if not self._is_over:
                raise
        finally:
            if not self._is_held:
                self.end()

    async def _open(self) -> RunReader:
        if self._reader is None:
            transport = await self._connected()
            self._limits = Limits.of(transport.settings)
            self._reader = RunReader(transport.link("run"), self._run, self._after)
            if self._is_over:  # it was ended while it connected
                self._reader.close()
        return self._reader

    def _read(self, record: RunRecord) -> RunEntry | None:
        try:
            event = self._registry.decode(record.type, record.version, record.body, self._limits)
        except BrokerError as error:
            self._say_passed_over(record, str(error))
            return None
        return RunEntry(record.number, datetime.fromtimestamp(record.at / 1000, UTC), event, record.tag)

    def _say_passed_over(self, record: RunRecord, problem: str) -> None:
        if problem not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(problem)
            logger.warning("event %d of the run %r can't be read here: %s", record.number, self._run, problem)

    def end(self) -> None:
        """Ends the reading; a loop that is under way ends as well. Safe to repeat."""
        self._is_over = True
        if self._reader is not None:
            self._reader.close()


PAGE: Final = 100  # runs that are asked for at once
LISTED: Final = "runs listed"  # in `config`: older runs were put into the list

Place: TypeAlias = tuple[int, str]
"""When a run began, server ms, and its id."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run, as its stream says.

    Attributes:
        id: Of its stream; `read_run` reads it.
        began: When its first entry was written.
        changed: When its last entry was written.
        entries: How many the stream has, drafts included.
        first: Its first event; None: it can't be read here, or was cut off.
        last: Its last event; None: it can't be read here.
    """

    id: str
    began: datetime
    changed: datetime
    entries: int
    first: Any
    last: Any


async def listed_runs(
    transport: RedisTransport,
    registry: MessageRegistry,
    limit: int,
    before: str | ListedRun | None,
    begins_with: str,
) -> list[ListedRun]:
    """See RedisAgentRuntime.list_runs."""
    found: list[ListedRun] = []
    await _list_older(transport)
    place = None if before is None else await _place(transport, before)
    named = await _named(transport, begins_with) if begins_with else None
    while len(found) < limit:
        most = min(PAGE, limit - len(found))
        page = await _page(transport, place, most) if named is None else _behind(named, place)[:most]
        if not page:
            break
        place = page[-1]
        runs = await asyncio.gather(*(_listed(transport, registry, name, at) for at, name in page))
        found += [run for run in runs if run is not None]
    return found


async def _named(transport: RedisTransport, beginning: str) -> list[Place]:
    """The runs whose ids begin like this, the newest first: only names are read, in small calls."""
    members = await pages(transport, "ZSCAN", RUNS, literally(beginning) + "*")
    return sorted(zip(map(time_of, members[1::2]), map(_name, members[::2]), strict=True), reverse=True)


def _behind(places: list[Place], place: Place | None) -> list[Place]:
    return [one for one in places if place is None or one < place]


async def _list_older(transport: RedisTransport) -> None:
    """Puts the runs into the list that began before there was one; once in a namespace."""
    config, command = transport.keys.of("config"), transport.admin.command
    if await command("HEXISTS", config, LISTED):
        return
    for name in await transport.names_after(transport.keys.of(run_suffix("")), "stream"):
        first = await command("XRANGE", transport.keys.of(run_suffix(name)), "-", "+", "COUNT", 1)
        if first:
            await command("ZADD", transport.keys.of(RUNS), "NX", record_of(first[0]).at, name)
    await command("HSET", config, LISTED, "1")


async def _place(transport: RedisTransport, run: str | ListedRun) -> Place:
    if isinstance(run, ListedRun):
        return round(run.began.timestamp() * 1000), run.id
    score = await transport.admin.command("ZSCORE", transport.keys.of(RUNS), run)
    if score is None:
        raise SettingValueError("before", repr(run), "the id of a run that is listed")
    return int(float(score)), run


async def _page(transport: RedisTransport, place: Place | None, most: int) -> list[Place]:
    """The runs behind this one, the newest first; of those that began in one ms, in the order of their ids."""
    key, skipped = transport.keys.of(RUNS), 0
    end = "+inf" if place is None else place[0]
    while True:
        options = ("BYSCORE", "REV", "LIMIT", skipped, most, "WITHSCORES")
        flat = await transport.admin.command("ZRANGE", key, end, "-inf", *options)
        page = list(zip(map(time_of, flat[1::2]), map(_name, flat[::2]), strict=True))
        behind = _behind(page, place)
        if behind or not page:
            return behind
        skipped += most


def _name(member: bytes) -> str:
    return member.decode("utf-8", "surrogateescape")


def _is_text(name: str) -> bool:
    """Whether it is one of ours; what a person has added to the list may be any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _listed(
    transport: RedisTransport, registry: MessageRegistry, name: str, began: int
) -> ListedRun | None:
    if not _is_text(name):
        return None
    key, command = transport.keys.of(run_suffix(name)), transport.admin.command
    length, first, last = await asyncio.gather(
        command("XLEN", key),
        command("XRANGE", key, "-", "+", "COUNT", 1),
        command("XREVRANGE", key, "0-18446744073709551615", "-", "COUNT", 1),
    )
    if not last:
        return None  # its stream has gone, or holds nothing of ours
    newest = record_of(last[0])
    oldest = record_of(first[0])
    return ListedRun(
        id=name,
        began=_time(began),
        changed=_time(newest.at),
        entries=length,
        first=_event(transport, registry, oldest),
        last=_event(transport, registry, newest),
    )


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _event(transport: RedisTransport, registry: MessageRegistry, record: RunRecord) -> Any:
    try:
        return registry.decode(record.type, record.version, record.body, Limits.of(transport.settings))
    except BrokerError:  # the list says what it can; reading the run says what is wrong
        return None
