"""One open connection to the server: commands as bytes, their answers, and what the errors of a server mean.

On a wire commands go out as they come, and answers come back in the same order. redis-py spends 11 microseconds on packing
a command and more on reading each answer; a worker's turn is one large command and one large answer, so hiredis does both
here without anything in between.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import hiredis

from callboard.broker.errors import (
    CommandError,
    ConnectionLostError,
    EncodeError,
    OverloadedError,
    ServerUnavailableError,
    is_refused_right,
)
from callboard.broker.telemetry import Disconnected, emit

from .endpoint import Argument, Endpoint


class Expected(NamedTuple):
    """An answer that is to come.

    Attributes:
        future: gets it.
        until: loop time, seconds, from when on it is late; `math.inf`: never.
        within: seconds that there were from the call to then.
    """

    future: asyncio.Future[Any]
    until: float
    within: float


class Wire(asyncio.Protocol):
    """A connection that is open, or broken for ever.

    Attributes:
        is_open: it was made and has not been lost.
        endpoint: where it leads.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.is_open = False
        self.endpoint = endpoint
        self._reader = hiredis.Reader()
        self._expected: deque[Expected] = deque()
        self._transport: asyncio.WriteTransport | None = None
        self._lost: ConnectionLostError | None = None
        self._loop = asyncio.get_running_loop()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf

    @classmethod
    async def open(cls, endpoint: Endpoint, name: str, connect_timeout: float) -> Wire:
        """Connects, logs in and names the connection (seen in CLIENT LIST).

        Raises:
            ServerUnavailableError: no server answers, the certificate is not accepted, or the user, the password or the
                database is refused (`trouble` says which).
        """
        wire = cls(endpoint)
        try:
            async with asyncio.timeout(connect_timeout):
                await wire._connect()
                await wire._greet(name)
        except CommandError as error:
            wire.close()
            raise ServerUnavailableError(endpoint.shown, str(error), "login") from error
        except (OSError, ssl.SSLError, UnicodeError, ConnectionLostError) as error:
            wire.close()
            raise ServerUnavailableError(endpoint.shown, str(error) or type(error).__name__) from error
        except BaseException:
            wire.close()
            raise
        return wire

    async def _connect(self) -> None:
        if self.endpoint.path:
            await self._loop.create_unix_connection(lambda: self, self.endpoint.path)
        else:
            await self._loop.create_connection(
                lambda: self, self.endpoint.host, self.endpoint.port, ssl=self.endpoint.ssl_context()
            )

    async def _greet(self, name: str) -> None:
        for command in self.endpoint.greeting(name):
            await self.call(command)

    @property
    def is_waiting(self) -> bool:
        """A call waits for its answer."""
        return bool(self._expected)

    # Calling

    def call(self, arguments: Sequence[Argument]) -> asyncio.Future[Any]:
        """Sends a command; the future gets its answer, or a BrokerError."""
        return self.call_within(arguments, math.inf)

    def call_within(
        self, arguments: Sequence[Argument], timeout: float, beginning: Beginning | None = None
    ) -> asyncio.Future[Any]:
        """Like call; when no answer comes in time the connection counts as broken (a half-open one never says so).

        Args:
            arguments: the command, or what comes behind its beginning.
            timeout: seconds.
            beginning: of the command.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._transport is None or self._lost is not None:
            future.set_exception(self._lost or ConnectionLostError(self.endpoint.shown))
            return future
        try:
            packed = pack(arguments) if beginning is None else pack_behind(beginning, arguments)
        except EncodeError as error:
            future.set_exception(error)
            return future
        until = self._loop.time() + timeout
        self._expected.append(tuple.__new__(Expected, (future, until, timeout)))
        if until < self._alarm_at:
            self._wake_at(until)
        self._transport.write(packed)
        return future

    async def call_both(
        self, first: Beginning, beginning: Beginning, arguments: Sequence[Argument], timeout: float
    ) -> list[Any]:
        """Sends two commands at once; returns their answers, errors included. The first one may wait at the server.

        Args:
            first: the whole of the first command.
            beginning: of the second one.
            arguments: the rest of it.
            timeout: seconds for both.
        """
        if self._transport is None or self._lost is not None:
            lost = self._lost or ConnectionLostError(self.endpoint.shown)
            return [lost, lost]
        one, other = self._loop.create_future(), self._loop.create_future()
        packed = pack_behind(first, ()) + pack_behind(beginning, arguments)
        until = self._loop.time() + timeout
        self._expected += (Expected(one, until, timeout), Expected(other, until, timeout))
        if until < self._alarm_at:
            self._wake_at(until)
        self._transport.write(packed)  # in one piece: each write wakes the server
        # Answers come in their order: with the last one all are there. Not asyncio.wait, which wakes this task one round
        # of the event loop later: an idle worker begins with its work here.
        try:
            answer = await other
        except asyncio.CancelledError:
            one.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - it is an answer
            answer = error
        return [one.exception() or one.result(), answer]

    # Answers that do not come. One timer for all calls: nearly all are answered, and a timer costs as much as packing.

    def _wake_at(self, until: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = until
        self._alarm = self._loop.call_at(until, self._look)

    def _look(self) -> None:
        """Looks whether an answer is late. When none is, it looks again when the next one would be."""
        self._alarm, self._alarm_at = None, math.inf
        # A caller that gave up waiting expects nothing.
        first = min(
            (each for each in self._expected if not each.future.done()),
            key=lambda each: each.until,
            default=None,
        )
        if first is None or first.until == math.inf:
            return
        # guard: an answer that does not come breaks the connection
        if first.until <= self._loop.time():
            self.close(f"no answer within {first.within:g} s")
        else:
            self._wake_at(first.until)

    # Ending

    def close(self, reason: str = "closed") -> None:
        """Closes at once; calls that wait for an answer get ConnectionLostError."""
        self._break(reason)
        if self._transport is not None:
            self._transport.abort()

    def _break(self, reason: str) -> None:
        self.is_open = False
        if self._lost is None:
            self._lost = ConnectionLostError(self.endpoint.shown, reason)
            if reason != "closed":
                emit(Disconnected, self.endpoint.shown, reason)
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm, self._alarm_at = None, math.inf
        while self._expected:
            future = self._expected.popleft().future
            if not future.done():
                future.set_exception(self._lost)
                future.exception()  # the caller may have gone; then no log is to tell of it

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's classes.
        self._transport = cast("asyncio.WriteTransport", transport)
        self.is_open = self._lost is None

    def data_received(self, data: bytes) -> None:
        reader, expected = self._reader, self._expected
        reader.feed(data)
        try:
            while self._lost is None and (answer := reader.gets()) is not False:
                if not expected:
                    self.close("an answer came that nobody asked for")
                elif isinstance(answer, hiredis.ReplyError):
                    self._refused(expected.popleft().future, answer)
                elif not (future := expected.popleft()[0]).done():
                    future.set_result(answer)
        except hiredis.ProtocolError as error:
            self.close(f"this is no Redis server: {error}")

    def _refused(self, future: asyncio.Future[Any], answer: Exception) -> None:
        if not future.done():
            future.set_exception(translate(answer, self.endpoint.shown))
        # guard: a connection to a demoted primary ends
        if says_demoted(str(answer)):
            self.close(str(answer))

    def connection_lost(self, exc: Exception | None) -> None:
        self._break(str(exc) if exc else "the server closed the connection")


DEMOTED = ("READONLY", "MASTERDOWN", "NOREPLICAS", "UNBLOCKED")
"""How the answer of a server begins that is the primary no more, or is cut off from its replicas and about to lose its
place to one of them. It goes on answering: only a new connection leads to where the primary is now."""

UNAVAILABLE = ("LOADING", "CLUSTERDOWN", "TRYAGAIN", *DEMOTED)


class Beginning(NamedTuple):
    """How many commands begin: packed once, for to pack a word costs as much as to call a function.

    Attributes:
        words: the command and its first arguments.
        packed: the same as bytes, without their number.
    """

    words: tuple[Argument, ...]
    packed: bytes

    @classmethod
    def of(cls, *words: Argument) -> Beginning:
        """The beginning with these words."""
        return cls(words, _without_number(pack(words)))


def translate(error: Exception, url: str) -> Exception:
    """The one place where the text of a server error is read."""
    text = str(error)
    word = text.split(" ", 1)[0]
    if word == "OOM" or "OOM command not allowed" in text:
        return OverloadedError("the server's memory is full, and it refused a call, which did nothing")
    if word == "MISCONF":
        return ServerUnavailableError(url, text.split(". ", 1)[0], "writes")
    if word in UNAVAILABLE:
        return ServerUnavailableError(url, text)
    if is_refused_right(text):
        return CommandError(f"{text}; `callboard acl ROLE` prints what each role may do")
    return CommandError(text)


def says_loading(text: str) -> bool:
    """Whether this is an answer of a server that was started and still reads its file."""
    return text.split(" ", 1)[0] == "LOADING"


def says_demoted(text: str) -> bool:
    """Whether this is an answer of a server that is the primary no more."""
    return text.split(" ", 1)[0] in DEMOTED


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


def pack_behind(beginning: Beginning, arguments: Sequence[Argument]) -> bytes:
    """A command that begins so, as bytes; raises as `pack` does."""
    if not arguments:
        return b"*%d\r\n%b" % (len(beginning.words), beginning.packed)
    rest = _without_number(pack(arguments))
    return b"*%d\r\n%b%b" % (len(beginning.words) + len(arguments), beginning.packed, rest)


def _without_number(packed: bytes) -> bytes:
    return packed[packed.index(b"\n") + 1 :]
