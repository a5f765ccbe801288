"""The lease of a worker, extended from a thread with a connection of its own.

A handler that blocks the event loop for minutes must not cost the worker its lease, so nothing here touches the loop.
The beat also reaps workers that stopped beating, fires timers and trims streams: see beat.lua.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import hiredis

from ..errors import BrokerError, CommandError, ConnectionLostError
from ..settings import BrokerSettings
from .endpoint import Endpoint
from .keys import Keys
from .scripts import is_missing, is_there_already, library
from .wire import Argument, pack, translate

logger = logging.getLogger("callboard.broker")

FIRST_PAUSE, LONGEST_PAUSE = 0.0005, 0.02  # seconds between two looks at whether the thread has ended


class BlockingWire:
    """A connection for a thread: one command, one answer."""

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._endpoint = endpoint
        self._reader = hiredis.Reader()
        try:
            self._socket = _connect(endpoint, timeout)
        except (OSError, UnicodeError) as error:
            raise ConnectionLostError(endpoint.shown, str(error)) from error
        try:
            for command in endpoint.greeting("callboard-heartbeat"):
                self.call(command)
        except BrokerError:
            self.close()
            raise

    def call(self, arguments: Sequence[Argument]) -> Any:
        try:
            self._socket.sendall(pack(arguments))
            while (answer := self._reader.gets()) is False:
                data = self._socket.recv(65536)
                if not data:
                    raise ConnectionLostError(self._endpoint.shown, "the server closed the connection")
                self._reader.feed(data)
        except (OSError, hiredis.ProtocolError) as error:
            raise ConnectionLostError(self._endpoint.shown, str(error)) from error
        if isinstance(answer, hiredis.ReplyError):
            raise translate(answer, self._endpoint.shown)
        return answer

    def close(self) -> None:
        self._socket.close()


def _connect(endpoint: Endpoint, timeout: float) -> socket.socket:
    if not endpoint.path:
        context = endpoint.ssl_context()
        plain = socket.create_connection((endpoint.host, endpoint.port), timeout)
        return plain if context is None else context.wrap_socket(plain, server_hostname=endpoint.host)
    plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        plain.settimeout(timeout)
        plain.connect(endpoint.path)
    except OSError:
        plain.close()
        raise
    return plain


class BlockingMemory:
    """The same for memory:// URLs."""

    def __init__(self, endpoint: Endpoint) -> None:
        import fakeredis

        from .memory_server import server_of

        self._client = fakeredis.FakeRedis(server=server_of(endpoint), protocol=2)

    def call(self, arguments: Sequence[Argument]) -> Any:
        import redis.exceptions

        try:
            return self._client.execute_command(*arguments)  # type: ignore[no-untyped-call]
        except redis.exceptions.RedisError as error:
            raise CommandError(str(error)) from error

    def close(self) -> None:
        self._client.close()


class Heartbeat:
    """Beats for the current incarnation of one worker until stopped.

    Args:
        pulse: returns worker name, entries held, handlers running; called in the thread, must not block.
        on_fenced: called in the thread when the server does not know the worker any more.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        keys: Keys,
        settings: BrokerSettings,
        pulse: Callable[[], tuple[str, int, int]],
        on_fenced: Callable[[str], None],
    ) -> None:
        self._endpoint = endpoint
        self._keys = keys
        self._settings = settings
        self._pulse = pulse
        self._on_fenced = on_fenced
        self._stop = threading.Event()
        self._wire: BlockingWire | BlockingMemory | None = None
        self._thread = threading.Thread(target=self._run, name="callboard-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; waits for a beat that is under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._settings.connect_timeout)

    async def end(self) -> None:
        """As `stop`, without blocking the event loop and without a thread of its executor, which would stay."""
        self._stop.set()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.connect_timeout
        pause = FIRST_PAUSE
        while self._thread.is_alive() and loop.time() < deadline:
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _run(self) -> None:
        complained = False
        while not self._stop.wait(self._settings.beat_every):
            try:
                self._beat()
                complained = False
            except BrokerError as error:
                self._hang_up()
                if not complained:
                    logger.warning("heartbeat failed, trying again: %s", error)
                complained = True
            except Exception:  # a thread that ended in silence would cost the worker its lease
                self._hang_up()
                if not complained:
                    logger.exception("heartbeat failed, trying again")
                complained = True
        self._hang_up()

    def _beat(self) -> None:
        worker, held, running = self._pulse()
        if not worker:
            return
        settings = self._settings
        lease = int(settings.lease * 1000)
        answer = self._script("beat", (worker, lease, settings.retain, settings.max_unclaimed, held, running))
        if answer[0] == b"FENCED":
            self._on_fenced(worker)

    def _script(self, name: str, arguments: Sequence[Argument]) -> Any:
        wire = self._connected()
        command = ("FCALL", library().function(name), 1, self._keys.prefix, *arguments)
        try:
            return wire.call(command)
        except CommandError as error:
            if not is_missing(error):
                raise
        try:
            wire.call(("FUNCTION", "LOAD", library().text))
        except CommandError as error:
            if not is_there_already(error):
                raise
        return wire.call(command)

    def _connected(self) -> BlockingWire | BlockingMemory:
        if self._wire is None:
            if self._endpoint.scheme == "memory":
                self._wire = BlockingMemory(self._endpoint)
            else:
                # Twice in a lease it must be possible to notice a dead connection and make a new one.
                self._wire = BlockingWire(self._endpoint, max(0.2, self._settings.lease / 3))
        return self._wire

    def _hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
