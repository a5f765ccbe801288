"""Links to the server, made again when they break; its clock, scans, and streams that are followed through a link.

A call that was under way when the connection broke fails with ConnectionLostError: whether it was carried out is
unknown, and only the caller knows how to find out. What to do next (send again, ask what happened) is decided there.

The server's clock (`ServerClock`) goes by a clock of this machine that is never set, and learns from every answer how
far the server's is from it. So it does not matter what time this machine believes it is, nor that it changes its mind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from callboard.broker.errors import (
    CommandError,
    ConnectionLostError,
    OverloadedError,
    ServerUnavailableError,
    layout_error,
)
from callboard.broker.redis.keys import Keys
from callboard.broker.redis.library import is_missing, library, loading, refused_loading
from callboard.broker.retry import Backoff
from callboard.broker.settings import BrokerSettings
from callboard.broker.telemetry import Connected, emit

from .endpoint import Argument, Endpoint
from .sentinels import ROLE, PrimaryWatch, check_role, locate
from .wire import Beginning, Wire, says_demoted, says_loading

logger = logging.getLogger("callboard.broker")

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0  # seconds between attempts to connect
Revive = Callable[[], Awaitable[None]]
"""Starts an embedded server again that died; raises ServerUnavailableError."""


class Channel(Protocol):
    """A connection as a link needs it: Wire, or its stand-in for memory://."""

    @property
    def is_open(self) -> bool: ...

    @property
    def is_waiting(self) -> bool:
        """A call waits for its answer."""
        ...

    def call_within(
        self, arguments: Sequence[Argument], timeout: float, beginning: Beginning | None = None
    ) -> Awaitable[Any]: ...

    async def call_both(
        self, first: Beginning, beginning: Beginning, arguments: Sequence[Argument], timeout: float
    ) -> list[Any]: ...

    @property
    def endpoint(self) -> Endpoint:
        """Where it leads: never to sentinels."""
        ...

    def close(self, reason: str = "closed") -> None: ...


async def open_channel(endpoint: Endpoint, name: str, settings: BrokerSettings) -> Channel:
    """One connection, by the scheme of the URL."""
    if endpoint.scheme == "memory":
        from .memory import MemoryChannel

        return MemoryChannel(endpoint)
    timeout = settings.connect_timeout
    if endpoint.watched is None:
        return await Wire.open(endpoint, name, timeout)
    primary = await locate(endpoint, timeout)
    wire = await Wire.open(primary, name, timeout)
    try:
        check_role(primary, await wire.call_within(ROLE, timeout))
    except CommandError:
        return wire  # its user may not ask; a replica says so with the first call
    except BaseException:
        wire.close()
        raise
    return wire


class Link:
    """One connection at a time, opened when first needed.

    Args:
        endpoint, keys, settings: where, and how.
        name: of the connection, seen in CLIENT LIST.
        revive: starts an embedded server again that died.
        on_loss: told when a connection broke in the middle of a call; and whether the server said that it is the primary
            no more, so that all connections to it are of no use.
        watch: breaks the connection off when sentinels name another primary; to be given where they watch the endpoint.

    Attributes:
        opened: how many connections it has made.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        keys: Keys,
        settings: BrokerSettings,
        name: str = "callboard",
        revive: Revive | None = None,
        on_loss: Callable[[Link, bool], None] | None = None,
        watch: PrimaryWatch | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._watch = watch
        self._revive = revive
        self._on_loss = on_loss
        self.keys = keys
        self.settings = settings
        self._name = name
        self._channel: Channel | None = None
        self._functions: dict[str, Beginning] = {}
        self._opening = asyncio.Lock()
        self._closed = False
        self.opened = 0

    @property
    def is_open(self) -> bool:
        return self._channel is not None and self._channel.is_open

    @property
    def is_closed(self) -> bool:
        """Closed for good."""
        return self._closed

    async def channel(self) -> Channel:
        """The open connection; connects once when there is none.

        Raises:
            ServerUnavailableError: no server answers at the URL.
        """
        if self._channel is not None and self._channel.is_open:
            return self._channel
        async with self._opening:
            if self._closed:
                raise ConnectionLostError(self.endpoint.shown, "the link was closed")
            if self._channel is None or not self._channel.is_open:
                channel = await open_channel(self.endpoint, self._name, self.settings)
                if self._closed:
                    channel.close()
                    raise ConnectionLostError(self.endpoint.shown, "the link was closed")
                emit(Connected, self.endpoint.shown, self._channel is not None)
                self._channel = channel
                if self._watch is not None:
                    self._watch.follow(self)
                self.opened += 1
            return self._channel

    async def reconnect(self, within: float) -> None:
        """Tries to connect until it works, with growing pauses.

        Raises:
            ServerUnavailableError: it did not work in `within` seconds, or the link was closed.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            pause = backoff.pause()
            try:
                await self.channel()
                return
            except ServerUnavailableError:
                if self._closed or loop.time() + pause > deadline:
                    raise
                if self._revive is not None:
                    await self._revive()
            await asyncio.sleep(pause * (0.5 + random.random()))

    async def command(
        self, *arguments: Argument, timeout: float | None = None, beginning: Beginning | None = None
    ) -> Any:
        """Runs one command.

        Args:
            *arguments: the command, or what comes behind its beginning.
            timeout: seconds, default the socket timeout of the settings.
            beginning: of the command.
        """
        channel = self._channel
        if channel is None or not channel.is_open:
            channel = await self.channel()
        limit = self.settings.socket_timeout if timeout is None else timeout
        try:
            return await channel.call_within(arguments, limit, beginning)
        except ServerUnavailableError as error:
            self._tell_of_loss(error)
            raise

    def begin(self, name: str, arguments: Sequence[Argument]) -> asyncio.Future[Any] | None:
        """Sends a call of a Lua function at once; `run` may go on with it. None: there is no connection yet."""
        channel = self._channel
        if channel is None or not channel.is_open:
            return None
        function = self._functions.get(name) or self._function(name)
        return asyncio.ensure_future(channel.call_within(arguments, self.settings.socket_timeout, function))

    async def run(
        self,
        name: str,
        arguments: Sequence[Argument],
        timeout: float | None = None,
        begun: Awaitable[Any] | None = None,
    ) -> Any:
        """Runs the Lua function `name` with the namespace's prefix as its key; loads the library when it is missing.

        Args:
            name: of the function.
            arguments: of the call.
            timeout: seconds, default the socket timeout of the settings.
            begun: the call itself, where it was sent already.
        """
        channel = self._channel
        if channel is None or not channel.is_open:
            channel = await self.channel()
        limit = self.settings.socket_timeout if timeout is None else timeout
        function = self._functions.get(name) or self._function(name)
        try:
            return await (begun or channel.call_within(arguments, limit, function))
        except ServerUnavailableError as error:
            self._tell_of_loss(error)
            raise
        except CommandError as error:
            if not is_missing(error):
                raise layout_error(str(error), self.keys.namespace) or error from None
        await self._load(channel, limit)
        try:
            return await channel.call_within(arguments, limit, function)
        except CommandError as error:
            raise layout_error(str(error), self.keys.namespace) or error from None

    async def run_behind(
        self, waiting: Beginning, name: str, arguments: Sequence[Argument], timeout: float
    ) -> tuple[Any, Any]:
        """Sends a command that waits, and with it a call of a Lua function, which is made when the command has ended.

        Args:
            waiting: the whole command, such as BLPOP.
            name: of the function, which is not loaded when it is missing.
            arguments: of the call.
            timeout: seconds for both.

        Returns:
            Both answers, with the error in the place of the one that the server refused.

        Raises:
            ConnectionLostError, ServerUnavailableError: the call may have been made all the same.
        """
        channel = self._channel
        if channel is None or not channel.is_open:
            channel = await self.channel()
        function = self._functions.get(name) or self._function(name)
        first, second = await channel.call_both(waiting, function, arguments, timeout)
        for answer in (second, first):
            if isinstance(answer, ServerUnavailableError):
                self._tell_of_loss(answer)
                raise answer
        return first, second

    def _function(self, name: str) -> Beginning:
        """How each call of this Lua function begins."""
        made = self._functions[name] = Beginning.of("FCALL", library().function(name), 1, self.keys.prefix)
        return made

    async def patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeats a call that does no harm when it is repeated, until it goes through, however long the server is gone.

        Raises:
            ConnectionLostError, ServerUnavailableError: the link was closed meanwhile.
        """
        # A server that is no primary takes connections as ever, and refuses each call.
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                return await call()
            except (ConnectionLostError, ServerUnavailableError):
                if self._closed:
                    raise
            await asyncio.sleep(backoff.pause())
            await self.reconnect(math.inf)

    async def despite_losses(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeats a call that does no harm when it is repeated, while its answer is lost but the server can be reached.

        For what a process begins with: that a server is not there is told at once, a connection that breaks ends nothing. A
        server that still reads its file is there, and is waited for as by a worker that runs, however much it holds.

        Raises:
            ServerUnavailableError: the server can't be reached, or did not come back within `connect_timeout`.
            ConnectionLostError: answers were lost for `socket_timeout` since the first one was, or the link was closed.
        """
        loop = asyncio.get_running_loop()
        patience_ends = math.inf
        while True:
            try:
                return await call()
            except ServerUnavailableError as error:
                # guard: a server that still reads its file is waited for
                if not self._closed and says_loading(error.reason):
                    await self._wait_while_it_loads()
                    continue
                # One that breaks while it is greeted is a server that can't be reached, for everybody else.
                is_break = isinstance(error, ConnectionLostError) or isinstance(
                    error.__cause__, ConnectionLostError
                )
                # guard: a connection that breaks while it is made ends no process that begins
                if not is_break:
                    raise
                patience_ends = min(patience_ends, loop.time() + self.settings.socket_timeout)
                # guard: an answer that is lost ends no process that begins
                if self._closed or loop.time() > patience_ends:
                    raise
            await asyncio.sleep(FIRST_PAUSE)
            await self.reconnect(self.settings.connect_timeout)

    async def _wait_while_it_loads(self) -> None:
        """Returns when the server answers something else, or not at all."""
        logger.warning(
            "the server at %s reads its file, and answers when it is done: waiting", self.endpoint.shown
        )
        while not self._closed:
            try:
                await self.command("PING")
                return
            except ServerUnavailableError as error:
                if not says_loading(error.reason):
                    return
            await asyncio.sleep(LONGEST_PAUSE / 4)

    def _tell_of_loss(self, error: ServerUnavailableError) -> None:
        has_moved = says_demoted(error.reason)
        if (
            self._on_loss is not None
            and not self._closed
            and (has_moved or isinstance(error, ConnectionLostError))
        ):
            self._on_loss(self, has_moved)

    async def _load(self, channel: Channel, limit: float) -> None:
        try:
            await channel.call_within(loading(), limit)
        except OverloadedError as error:
            raise OverloadedError(
                "the server's memory is full, and it lacks the functions of this version, which can't be loaded"
            ) from error
        except CommandError as error:
            if (refused := refused_loading(error)) is not None:
                raise refused from None

    def doubt(self) -> None:
        """Drops the connection unless a call is under way, which has a limit of its own."""
        if self._channel is not None and not self._channel.is_waiting:
            self._channel.close("another connection of the process was lost")

    @property
    def connected_to(self) -> Endpoint | None:
        """Where the open connection leads."""
        return self._channel.endpoint if self._channel is not None and self._channel.is_open else None

    def break_off(self, reason: str) -> None:
        """Drops the connection; the next call makes a new one."""
        if self._channel is not None:
            self._channel.close(reason)

    def close(self) -> None:
        """Ends the link for good."""
        self._closed = True
        if self._channel is not None:
            self._channel.close()
            self._channel = None


# Streams that are followed

BLOCK = 5.0  # seconds that a read waits for something to come
READ = 500  # entries in one read
PAUSE = 0.05  # seconds before a connection that was lost is made again
AFTER_FAILURE = 1.0  # seconds before reading again what could not be read for another reason
TRIM_AFTER = 1000  # entries read since the stream was last trimmed
START = b"0-0"


class StreamTail:
    """Reads what is added to streams, from a place in each of them on. All readers of streams read through one.

    A read from `$` would miss what is added between two reads, so the ids of the last entries are kept here.

    Args:
        link: a connection of its own.
        count: entries of one read, at most.
        block: seconds that a read waits; None: BLOCK.

    Attributes:
        places: Redis key -> id of the entry that was read last.
        in_doubt: the connection was lost since the last read, so a place may be of entries that are lost as well: the
            reader has to look for it, and sets this back.
    """

    def __init__(self, link: Link, count: int = READ, block: float | None = None) -> None:
        self._link = link
        self._count = count
        self._block = BLOCK if block is None else block
        self._reading = self._looking = Beginning.of("XREAD")
        self._keys: list[str] = []
        self.places: dict[str, bytes] = {}
        self.in_doubt = False

    async def read(self, wait: bool = True) -> Sequence[tuple[bytes, Sequence[Any]]]:
        """The entries that come next, for each key; an empty list when there are none, with `wait` after a while."""
        if self._keys != [*self.places]:
            self._keys = [*self.places]
            self._looking = Beginning.of("XREAD", "COUNT", self._count, "STREAMS", *self._keys)
            block = ("BLOCK", int(self._block * 1000))
            self._reading = Beginning.of("XREAD", "COUNT", self._count, *block, "STREAMS", *self._keys)
        limit = self._link.settings.socket_timeout + (self._block if wait else 0)
        beginning = self._reading if wait else self._looking
        answer = await self._link.command(*self.places.values(), timeout=limit, beginning=beginning)
        return answer or ()

    async def was_lost(self, within: float) -> None:
        """Makes the connection again, after it was lost.

        Raises:
            ServerUnavailableError: it did not work in `within` seconds, or the link was closed.
        """
        # guard: a reader that lost its connection looks for its place
        self.in_doubt = True
        await asyncio.sleep(PAUSE)
        await self._link.reconnect(within)

    async def last_id(self, key: str) -> bytes:
        """The id of the newest entry of a stream."""
        found: list[list[bytes]] = await self._link.command("XREVRANGE", key, "+", "-", "COUNT", 1)
        return found[0][0] if found else START


class StreamFollower:
    """Hands the values of every entry that arrives to a function, in order.

    Args:
        link: a connection of its own.
        suffix: the stream.
        on_entry: called with the values of an entry, without the names of its fields.
        is_own: the stream has no other reader: it is read from its start, trimmed, and removed by `close`.
    """

    def __init__(
        self, link: Link, suffix: str, on_entry: Callable[[Sequence[bytes]], None], *, is_own: bool
    ) -> None:
        self._link = link
        self._key = link.keys.of(suffix)
        self._tail = StreamTail(link)
        self._tail.places[self._key] = START
        self._on_entry = on_entry
        self._is_own = is_own
        self._since_trim = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to read. Safe to repeat."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="callboard-follower")

    async def _run(self) -> None:
        while not self._link.is_closed:
            try:
                if self._tail.in_doubt:
                    await self._find_place()
                self._take(await self._tail.read())
                if self._is_own and self._since_trim >= TRIM_AFTER:
                    await self._trim()
            except (ConnectionLostError, ServerUnavailableError) as error:
                logger.debug("%s can't be read for now: %s", self._key, error)
                with contextlib.suppress(
                    ServerUnavailableError
                ):  # it waits for ever, unless the link was closed
                    await self._tail.was_lost(math.inf)
            except (
                Exception
            ):  # if this task ended, a requester would wait in vain for a reply that is in the stream
                logger.exception("%s can't be read, trying again", self._key)
                await asyncio.sleep(AFTER_FAILURE)

    async def skip_to_end(self) -> None:
        """Leaves out the entries that are there already.

        Raises:
            ServerUnavailableError: the server can't be reached.
        """
        last = await self._link.despite_losses(lambda: self._tail.last_id(self._key))
        self._tail.places[self._key] = last

    async def _find_place(self) -> None:
        """Reads from the start when the entry that was read last is not there any more.

        A server that lost a tail, or a stream that expired, goes on with ids of the server's clock. Where that is behind,
        they are below the remembered one, and would never be read. To read an entry twice does no harm.
        """
        last = self._tail.places[self._key]
        command = ("XREAD", "COUNT", 1, "STREAMS", self._key, just_below(last))
        found = await self._link.command(*command) if last != START else None
        # guard: a remembered place that is gone is not read behind
        if not found or found[0][1][0][0] != last:
            self._tail.places[self._key] = START
        self._tail.in_doubt = False

    def _take(self, answer: Sequence[tuple[bytes, Sequence[Any]]]) -> None:
        # A server may be another one behind the same connection: nothing came for a whole read, so the place is looked at.
        self._tail.in_doubt = not answer
        for _, entries in answer:
            for entry_id, fields in entries:
                self._tail.places[self._key] = entry_id
                self._since_trim += 1
                self._on_entry(fields[1::2])

    async def _trim(self) -> None:
        self._since_trim = 0
        await self._link.command("XTRIM", self._key, "MINID", "~", self._tail.places[self._key])

    async def close(self) -> None:
        """Stops reading; removes a stream that is its own."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            # The cancelled XREAD still blocks this connection in the server, for up to BLOCK: a DEL behind it would wait.
            self._link.break_off("closed")
            if self._is_own:
                # Without a server now, the stream expires by itself a minute after the last reply.
                with contextlib.suppress(ServerUnavailableError, CommandError):
                    await self._link.command("DEL", self._key, timeout=1.0)
        self._link.close()


def just_below(entry_id: bytes) -> bytes:
    """The last id before another one."""
    ms, _, number = entry_id.partition(b"-")
    if int(number):
        return b"%d-%d" % (int(ms), int(number) - 1)
    return b"%d-%d" % (int(ms) - 1, 2**64 - 1) if int(ms) else START


# The server's clock

# Counts while the machine sleeps, too, where there is such a clock.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def steady_ms() -> float:
    """Milliseconds of a clock that only goes on; its zero means nothing."""
    return (time.monotonic() if _STEADY is None else time.clock_gettime(_STEADY)) * 1000


class ServerClock:
    """Estimate of the server's time, made better by its answers: its time lay between the question and the answer."""

    def __init__(self) -> None:
        # What is ahead of the steady clock by so much, at least and at most. Until the first answer this machine's word.
        self._least = self._most = time.time() * 1000 - steady_ms()
        self._offset = self._least
        self._is_known = False

    def observe(self, server_ms: int, asked_ms: float | None) -> None:
        """Learns from an answer.

        Args:
            server_ms: the server's time in it.
            asked_ms: steady time when the question left; None: it is not known, and the answer is taken for new.
        """
        now = steady_ms()
        least, most = server_ms - now, server_ms + 1 - (now if asked_ms is None else asked_ms)
        if self._is_known and least <= self._most and most >= self._least:
            # An answer that lay unread while a handler blocked the event loop says little, and takes nothing away.
            least, most = max(least, self._least), min(most, self._most)
        self._least, self._most, self._is_known = least, most, True
        self._offset = (least + most) / 2

    def now_ms(self) -> int:
        """The server's time now."""
        return int(steady_ms() + self._offset)


# Scans

PAGE: Final = 1000  # members, or keys, that the server looks at in one call


async def scan(
    link: Link, *command: Argument, pattern: str = "*", of_type: str = "", page: int = PAGE
) -> AsyncIterator[list[bytes]]:
    """The pages of SCAN, HSCAN, SSCAN or ZSCAN; what is there all the time is in one of them, or in several.

    Args:
        link: to the server.
        *command: its name, and the Redis key unless it is SCAN.
        pattern: of what is looked for, as the server reads patterns.
        of_type: for SCAN: only keys of this type.
        page: how many members, or keys, the server looks at in one call.
    """
    options = ("MATCH", pattern, "COUNT", page, *(("TYPE", of_type) if of_type else ()))
    cursor: bytes | int = 0
    connection = None
    while True:
        cursor, found = await link.command(*command, cursor, *options)
        # A cursor says nothing to another server process, which has the same members in another order. Another connection
        # may lead to one: the server was started again, or a replica took over.
        # guard: a scan begins anew on another connection
        is_lost = connection not in (None, link.opened)
        connection = link.opened
        yield found
        if is_lost:
            cursor = 0
        elif int(cursor) == 0:
            return
