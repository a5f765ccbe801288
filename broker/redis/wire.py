"""One connection to the server: commands go out as they come, answers come back in the same order.

redis-py spends 11 microseconds on packing a command and more on reading each answer; a worker's turn is one large
command and one large answer, so hiredis does both here without anything in between.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Any, cast

import hiredis

from ..errors import CommandError, ConnectionLostError, EncodeError, OverloadedError, ServerUnavailableError
from ..telemetry import Disconnected, emit
from .endpoint import Endpoint

Argument = bytes | str | int | float

UNAVAILABLE = ("LOADING", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "TRYAGAIN")


def translate(error: Exception, url: str) -> Exception:
    """The one place where the text of a server error is read."""
    text = str(error)
    word = text.split(" ", 1)[0]
    if word == "OOM" or "OOM command not allowed" in text:
        return OverloadedError("the server's memory is full")
    if word in UNAVAILABLE:
        return ServerUnavailableError(url, text)
    return CommandError(text)


def pack(arguments: Sequence[Argument]) -> bytes:
    """A command as bytes.

    Raises:
        EncodeError: an argument is no text, number or bytes, or has half of a surrogate pair.
    """
    try:
        packed: bytes = hiredis.pack_command(tuple(arguments))  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError) as error:
        raise EncodeError("a command", str(error)) from error
    return packed


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
            while (answer := self._reader.gets()) is not False:
                self._answer(answer)
        except hiredis.ProtocolError as error:
            self.close(f"this is no Redis server: {error}")

    def _answer(self, answer: Any) -> None:
        if not self._waiting:
            self.close("an answer came that nobody asked for")
            return
        future = self._waiting.popleft()
        if future.done():
            return
        if isinstance(answer, hiredis.ReplyError):
            future.set_exception(translate(answer, self._endpoint.shown))
        else:
            future.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._break(str(exc) if exc else "the server closed the connection")
