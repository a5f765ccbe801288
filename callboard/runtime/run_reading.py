"""Reading what happens in a run, from any process, from any place, live or to its end."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from callboard.broker import MessageRegistry
from callboard.broker.encoding.limits import Limits
from callboard.broker.errors import BrokerError, ConnectionLostError
from callboard.broker.redis.client.run_reader import RunReader, RunRecord
from callboard.broker.redis.client.transport import RedisTransport

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


class RunReading:
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
