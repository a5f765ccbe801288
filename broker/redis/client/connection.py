"""Connections to the server: a link makes its connection, a wire, again when it breaks; and it knows the scripts.

A call that was under way when the connection broke fails with ConnectionLostError: whether it was carried out is
unknown, and only the caller knows how to find out. What to do next (send again, ask what happened) is decided there.

On a wire commands go out as they come, and answers come back in the same order. redis-py spends 11 microseconds on packing
a command and more on reading each answer; a worker's turn is one large command and one large answer, so hiredis does both
here without anything in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

import hiredis

from callboard.broker.errors import (
    CommandError,
    ConnectionLostError,
    EncodeError,
    ServerUnavailableError,
    layout_error,
)
from callboard.broker.redis.keys import Keys
from callboard.broker.redis.scripts import is_missing, is_there_already, library
from callboard.broker.settings import BrokerSettings
from callboard.broker.telemetry import Connected, Disconnected, emit

from .commands import pack, says_demoted, translate
from .endpoint import Argument, Endpoint

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0  # seconds between attempts to connect
Revive = Callable[[], Awaitable[None]]
"""Starts an embedded server again that died; raises ServerUnavailableError."""


class Channel(Protocol):
    """What a link needs of a connection: Wire, or its stand-in for memory://."""

    @property
    def is_open(self) -> bool: ...

    @property
    def is_waiting(self) -> bool:
        """Somebody waits for an answer."""
        ...

    async def call_within(self, arguments: Sequence[Argument], timeout: float) -> Any: ...

    async def call_both(
        self, first: Sequence[Argument], second: Sequence[Argument], timeout: float
    ) -> list[Any]: ...

    def close(self, reason: str = "closed") -> None: ...


async def open_channel(endpoint: Endpoint, name: str, settings: BrokerSettings) -> Channel:
    """One connection, by the scheme of the URL."""
    if endpoint.scheme == "memory":
        from .memory import MemoryChannel

        return MemoryChannel(endpoint)
    return await Wire.open(endpoint, name, settings.connect_timeout)


class Link:
    """One connection at a time, opened when first needed.

    Args:
        endpoint, keys, settings: where, and how.
        name: of the connection, seen in CLIENT LIST.
        revive: starts an embedded server again that died.
        on_loss: told when a connection broke in the middle of a call; and whether the server said that it is the primary
            no more, so that all connections to it are of no use.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        keys: Keys,
        settings: BrokerSettings,
        name: str = "callboard",
        revive: Revive | None = None,
        on_loss: Callable[[Link, bool], None] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._revive = revive
        self._on_loss = on_loss
        self.keys = keys
        self.settings = settings
        self._name = name
        self._channel: Channel | None = None
        self._opening = asyncio.Lock()
        self._closed = False

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
            return self._channel

    async def reconnect(self, within: float) -> None:
        """Tries to connect until it works, with growing pauses.

        Raises:
            ServerUnavailableError: it did not work in `within` seconds, or the link was closed.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        pause = FIRST_PAUSE
        while True:
            try:
                await self.channel()
                return
            except ServerUnavailableError:
                if self._closed or loop.time() + pause > deadline:
                    raise
                if self._revive is not None:
                    await self._revive()
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def command(self, *arguments: Argument, timeout: float | None = None) -> Any:
        """Runs one command. `timeout` in seconds, default the socket timeout of the settings."""
        channel = await self.channel()
        limit = self.settings.socket_timeout if timeout is None else timeout
        try:
            return await channel.call_within(arguments, limit)
        except ServerUnavailableError as error:
            self._tell_of_loss(error)
            raise

    async def run(self, name: str, arguments: Sequence[Argument], timeout: float | None = None) -> Any:
        """Runs the Lua function `name` with the namespace's prefix as its key; loads the library when it is missing."""
        channel = await self.channel()
        limit = self.settings.socket_timeout if timeout is None else timeout
        command = ["FCALL", library().function(name), 1, self.keys.prefix, *arguments]
        try:
            return await channel.call_within(command, limit)
        except ServerUnavailableError as error:
            self._tell_of_loss(error)
            raise
        except CommandError as error:
            if not is_missing(error):
                raise layout_error(str(error), self.keys.namespace) or error from None
        await self._load(channel, limit)
        try:
            return await channel.call_within(command, limit)
        except CommandError as error:
            raise layout_error(str(error), self.keys.namespace) or error from None

    async def run_behind(
        self, waiting: Sequence[Argument], name: str, arguments: Sequence[Argument], timeout: float
    ) -> tuple[Any, Any]:
        """Sends a command that waits, and with it a call of a Lua function, which is made when the command has ended.

        Args:
            waiting: the command, such as BLPOP.
            name: of the function, which is not loaded when it is missing.
            arguments: of the call.
            timeout: seconds for both.

        Returns:
            Both answers, with the error in the place of the one that the server refused.

        Raises:
            ConnectionLostError, ServerUnavailableError: the call may have been made all the same.
        """
        channel = await self.channel()
        command = ("FCALL", library().function(name), 1, self.keys.prefix, *arguments)
        first, second = await channel.call_both(waiting, command, timeout)
        for answer in (second, first):
            if isinstance(answer, ServerUnavailableError):
                self._tell_of_loss(answer)
                raise answer
        return first, second

    async def patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeats a call that does no harm when it is repeated, until it goes through, however long the server is gone.

        Raises:
            ConnectionLostError, ServerUnavailableError: the link was closed meanwhile.
        """
        pause = FIRST_PAUSE
        while True:
            try:
                return await call()
            except (ConnectionLostError, ServerUnavailableError):
                if self._closed:
                    raise
            await asyncio.sleep(pause)
            # A server that is no primary takes connections as ever, and refuses each call.
            pause = min(pause * 2, LONGEST_PAUSE)
            await self.reconnect(math.inf)

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
            await channel.call_within(("FUNCTION", "LOAD", library().text), limit)
        except CommandError as error:
            if not is_there_already(error):
                raise

    def doubt(self) -> None:
        """Drops the connection unless a call is under way, which has a limit of its own."""
        if self._channel is not None and not self._channel.is_waiting:
            self._channel.close("another connection of the process was lost")

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


class Wire(asyncio.Protocol):
    """A connection that is open, or broken for ever."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._reader = hiredis.Reader()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._transport: asyncio.WriteTransport | None = None
        self._lost: ConnectionLostError | None = None
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(cls, endpoint: Endpoint, name: str, connect_timeout: float) -> Wire:
        """Connects, logs in and names the connection (seen in CLIENT LIST).

        Raises:
            ServerUnavailableError: nobody answers, the login is refused, or the certificate is not accepted.
        """
        wire = cls(endpoint)
        try:
            async with asyncio.timeout(connect_timeout):
                await wire._connect()
                await wire._greet(name)
        except (OSError, ssl.SSLError, UnicodeError, ConnectionLostError, CommandError) as error:
            wire.close()
            raise ServerUnavailableError(endpoint.shown, str(error) or type(error).__name__) from error
        except BaseException:
            wire.close()
            raise
        return wire

    async def _connect(self) -> None:
        if self._endpoint.path:
            await self._loop.create_unix_connection(lambda: self, self._endpoint.path)
        else:
            await self._loop.create_connection(
                lambda: self, self._endpoint.host, self._endpoint.port, ssl=self._endpoint.ssl_context()
            )

    async def _greet(self, name: str) -> None:
        for command in self._endpoint.greeting(name):
            await self.call(command)

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._lost is None

    @property
    def is_waiting(self) -> bool:
        """Somebody waits for an answer."""
        return bool(self._waiting)

    def call(self, arguments: Sequence[Argument]) -> asyncio.Future[Any]:
        """Sends a command; the future gets its answer, or a BrokerError."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._transport is None or self._lost is not None:
            future.set_exception(self._lost or ConnectionLostError(self._endpoint.shown))
            return future
        try:
            packed = pack(arguments)
        except EncodeError as error:
            future.set_exception(error)
            return future
        self._waiting.append(future)
        self._transport.write(packed)
        return future

    async def call_within(self, arguments: Sequence[Argument], timeout: float) -> Any:
        """Like call; when no answer comes in time the connection counts as broken (a half-open one never says so)."""
        future = self.call(arguments)
        timer = self._loop.call_later(timeout, self.close, f"no answer within {timeout:g} s")
        try:
            return await future
        finally:
            timer.cancel()

    async def call_both(
        self, first: Sequence[Argument], second: Sequence[Argument], timeout: float
    ) -> list[Any]:
        """Sends two commands at once; returns their answers, errors included. The first one may wait at the server."""
        if self._transport is None or self._lost is not None:
            lost = self._lost or ConnectionLostError(self._endpoint.shown)
            return [lost, lost]
        both = self._loop.create_future(), self._loop.create_future()
        packed = pack(first) + pack(second)
        self._waiting.extend(both)
        self._transport.write(packed)  # in one piece: each write wakes the server
        timer = self._loop.call_later(timeout, self.close, f"no answer within {timeout:g} s")
        try:
            # Answers come in their order: with the last one all are there. Not asyncio.wait, which wakes this task one round
            # of the event loop later: an idle worker begins with its work here.
            with contextlib.suppress(Exception):
                await both[1]
            return [one.exception() or one.result() for one in both]
        finally:
            timer.cancel()
            for one in both:
                one.cancel()

    def close(self, reason: str = "closed") -> None:
        """Closes at once; whoever waits for an answer gets ConnectionLostError."""
        self._break(reason)
        if self._transport is not None:
            self._transport.abort()

    def _break(self, reason: str) -> None:
        if self._lost is None:
            self._lost = ConnectionLostError(self._endpoint.shown, reason)
            if reason != "closed":
                emit(Disconnected, self._endpoint.shown, reason)
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(self._lost)
                future.exception()  # the caller may have gone; then nobody else is to hear of it

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's classes.
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while self._lost is None and (answer := self._reader.gets()) is not False:
                self._answer(answer)
        except hiredis.ProtocolError as error:
            self.close(f"this is no Redis server: {error}")

    def _answer(self, answer: Any) -> None:
        if not self._waiting:
            self.close("an answer came that nobody asked for")
            return
        future = self._waiting.popleft()
        is_error = isinstance(answer, hiredis.ReplyError)
        if not future.done():
            if is_error:
                future.set_exception(translate(answer, self._endpoint.shown))
            else:
                future.set_result(answer)
        # guard: a connection to a demoted primary ends
        if is_error and says_demoted(str(answer)):
            self.close(str(answer))

    def connection_lost(self, exc: Exception | None) -> None:
        self._break(str(exc) if exc else "the server closed the connection")
