"""A topic read along with, without taking part: what a window shows as long as it is open."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import TracebackType
from typing import Any, NamedTuple, Self

from callboard.broker import AgentId, MessageRegistry, TopicId
from callboard.broker.envelope import Envelope
from callboard.broker.errors import BrokerError, ConnectionLostError
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.operations.entries import EntryReader, StreamEntry
from callboard.core.cancellation import CancellationToken
from callboard.core.context import MessageContext
from callboard.errors import SettingValueError

from .execution import Executions

logger = logging.getLogger("callboard.actors")

MOST_TOLD = 1000  # different problems that are said


class Place(NamedTuple):
    """The topic, or the part of it, that is read.

    Attributes:
        topic: topic type.
        key: the source, None: all of them.
    """

    topic: str
    key: str | None

    @classmethod
    def of(cls, topic: TopicId | str, key: str | None) -> Place:
        """As a program writes it.

        Raises:
            InvalidIdError: the topic is not valid.
            SettingValueError: two keys are given.
        """
        if isinstance(topic, str) and "/" not in topic:
            return cls(TopicId(topic, key or "").type, key)
        topic_id = topic if isinstance(topic, TopicId) else TopicId.from_str(topic)
        if key is not None and key != topic_id.source:
            raise SettingValueError("key", repr(key), f"left out, as {topic_id} has one")
        return cls(topic_id.type, topic_id.source)


class Start(NamedTuple):
    """Where the reading begins: with the newest so many, with everything, or with what comes next."""

    last: int = 0
    is_first: bool = False

    @classmethod
    def of(cls, last: int, from_start: bool) -> Start:
        """As a program writes it.

        Raises:
            SettingValueError: it can't be that.
        """
        given: object = last
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise SettingValueError("last", repr(last), "a whole number, 0 or more")
        if last and from_start:
            raise SettingValueError("last", repr(last), "left out where from_start=True")
        return cls(last, from_start)


class Following:
    """Messages that are published to a topic, as `async for message, ctx in ...`; made by `runtime.follow`.

    It has no consumer group and no key in the server: agents get every message all the same, and nothing is left when it
    ends. It ends when the loop is left, and with the runtime. A loop begins with what is published from then on;
    ``async with runtime.follow(...) as pieces:`` begins at its first line, for a program that publishes a question and
    then loops over the answers.

    A hundred messages at most are in this process; what is not read yet waits in the stream. That keeps the newest
    `retain` entries (1,000) whatever was handled, and where nothing subscribes the newest `max_unclaimed`: who is further
    behind misses the oldest, which a warning says. A message that can't be read, because its class is not known here or its
    bytes are broken, is passed over with a warning. The context has sender, topic, id and nothing to commit.

    Args:
        connected: connects, and returns the connection.
        registry: message classes.
        place: what is read.
        start: where it begins.
    """

    def __init__(
        self,
        connected: Callable[[], Awaitable[RedisTransport]],
        registry: MessageRegistry,
        place: Place,
        start: Start,
    ) -> None:
        self._connected = connected
        self._registry = registry
        self._place = place
        self._start = start
        self._executions: Executions | None = None
        self._reader: EntryReader | None = None
        self._found: deque[StreamEntry] = deque()
        self._told: set[str] = set()
        self._is_held = False
        self._is_over = False

    async def __aenter__(self) -> Self:
        self._is_held = True
        try:
            await self._open()
        except BaseException:
            self.end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def __aiter__(self) -> AsyncGenerator[tuple[Any, MessageContext], None]:
        return self._messages()

    async def _messages(self) -> AsyncGenerator[tuple[Any, MessageContext], None]:
        try:
            executions, reader = await self._open()
            while not self._is_over:
                if not self._found:
                    self._found.extend(await reader.read())
                    self._say_what_was_missed(reader)
                while self._found and not self._is_over:
                    read = await self._read(executions, self._found.popleft())
                    if read is not None:
                        yield read
        except ConnectionLostError:
            if not self._is_over:
                raise
        finally:
            if not self._is_held:
                self.end()

    async def _open(self) -> tuple[Executions, EntryReader]:
        if self._executions is None or self._reader is None:
            transport = await self._connected()
            self._executions = Executions(transport, self._registry, lambda _: None)
            self._reader = EntryReader(transport, [self._place.topic], self._start.is_first, is_counting=True)
            await self._reader.begin()
            self._found.extend(await self._reader.newest(self._start.last, self._is_wanted))
        return self._executions, self._reader

    def _is_wanted(self, entry: StreamEntry) -> bool:
        key = self._place.key
        return key is None or (entry.envelope is not None and entry.envelope.key == key)

    async def _read(self, executions: Executions, entry: StreamEntry) -> tuple[Any, MessageContext] | None:
        if not self._is_wanted(entry):
            return None
        if entry.envelope is None:
            self._say_passed_over(entry, entry.problem)
            return None
        try:
            message = await executions.read(entry.envelope)
        except ConnectionLostError:
            raise
        except BrokerError as error:
            self._say_passed_over(entry, str(error))
            return None
        return message, self._context(entry.envelope)

    def _context(self, envelope: Envelope) -> MessageContext:
        sender = AgentId.from_str(envelope.sender) if envelope.sender else None
        topic = TopicId(self._place.topic, envelope.key)
        return MessageContext(sender, topic, False, CancellationToken(), envelope.id)

    def _say_passed_over(self, entry: StreamEntry, problem: str) -> None:
        if problem not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(problem)
            logger.warning("a message of %s (%s) can't be read here: %s", entry.stream, entry.entry, problem)

    def _say_what_was_missed(self, reader: EntryReader) -> None:
        if reader.has_missed:
            reader.has_missed = False
            logger.warning(
                "who follows the topic %r was so far behind that messages were gone: read faster, or raise `retain`",
                self._place.topic,
            )

    def end(self) -> None:
        """Ends the reading; a loop that is under way ends as well. Safe to repeat."""
        self._is_over = True
        if self._reader is not None:
            self._reader.close()
