"""An address that leads to one server or another, as a virtual IP does: connections that are open stay where they are."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

CHUNK = 65_536  # bytes read at once


class Forwarder:
    """Listens on a port of the loopback, in a thread: what the test itself does over it may block its event loop.

    Attributes:
        target: port that new connections lead to.
        is_silent: nothing that is sent gets through any more, and neither side is told.
        loses: words; the next command that has one gets to the server, and its connection breaks before the answer comes.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.is_silent = False
        self.loses: list[bytes] = []
        self._loop = asyncio.new_event_loop()
        self._listens = threading.Event()
        self._ends: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="forwarder", daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._ends = asyncio.Event()
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._listens.set()
        await self._ends.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.target)
            try:
                losing = asyncio.Event()
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pump(reader, to_writer, lambda data: self._lose(data, losing)))
                    group.create_task(self._pump(to_reader, writer, lambda _: losing.is_set()))
            finally:
                to_writer.transport.abort()
        writer.transport.abort()

    def _lose(self, data: bytes, losing: asyncio.Event) -> bool:
        """Notices a command whose answer is to be lost; the command itself is passed on."""
        for word in [word for word in self.loses if word in data]:
            self.loses.remove(word)
            losing.set()
        return False

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ends_at: Callable[[bytes], bool],
    ) -> None:
        with contextlib.suppress(OSError):
            while (data := await reader.read(CHUNK)) and not ends_at(data):
                if not self.is_silent:
                    writer.write(data)
                    await writer.drain()
        writer.transport.abort()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listens.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._ends is not None
        self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join(10)
