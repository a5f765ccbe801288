"""A TCP proxy in front of the server that does to connections what networks do: cut, fall silent, delay, drip."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from .clock import now

CHUNK = 65_536  # bytes read at once


class Pair:
    """One connection of a client, and the one to the server that belongs to it.

    Attributes:
        silent: what is sent either way disappears, and neither side is told.
        closed_at: when the client gave it up, by clock.py; None while it is open.
    """

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._client = client
        self._server = server
        self.silent = False
        self.closed_at: float | None = None

    def cut(self) -> None:
        """Resets both ends."""
        for writer in (self._client, self._server):
            writer.transport.abort()


class Proxy:
    """Listens on a port of the loopback and passes everything on.

    Args:
        target: the Unix socket, or the port of the loopback, that it passes everything on to.

    Attributes:
        target: may be changed: new connections go there, those that are open stay where they are.
        delay: seconds that everything takes longer, each way.
        drip: bytes that get through at once, every `tick` seconds; None: all.
        refuses: new connections are reset.
    """

    tick = 0.002

    def __init__(self, target: Path | int) -> None:
        self.target = target
        self._listener: asyncio.Server | None = None
        self._pairs: set[Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.delay = 0.0
        self.drip: int | None = None
        self.refuses = False

    @property
    def url(self) -> str:
        assert self._listener is not None, "start() comes first"  # noqa: S101
        return f"redis://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    @property
    def pairs(self) -> list[Pair]:
        """The connections that are open."""
        return [pair for pair in self._pairs if pair.closed_at is None]

    async def start(self) -> None:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    def cut(self) -> int:
        """Resets every connection; returns how many."""
        pairs = self.pairs
        for pair in pairs:
            pair.cut()
        return len(pairs)

    def fall_silent(self) -> list[Pair]:
        """Makes every connection half-open: nothing gets through and neither side is told. New ones work."""
        pairs = self.pairs
        for pair in pairs:
            pair.silent = True
        return pairs

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or self.refuses:
            writer.transport.abort()
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            server_reader, server_writer = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        pair = Pair(writer, server_writer)
        self._pairs.add(pair)
        try:
            await self._pass_on(pair, reader, writer, server_reader, server_writer)
        except asyncio.CancelledError:
            pass  # the proxy is closed; asyncio would complain about a cancelled connection
        finally:
            self._pairs.discard(pair)
            pair.cut()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.target, int):
            return await asyncio.open_connection("127.0.0.1", self.target)
        return await asyncio.open_unix_connection(self.target)

    async def _pass_on(
        self,
        pair: Pair,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        to_server = asyncio.create_task(self._pump(pair, reader, server_writer))
        to_client = asyncio.create_task(self._pump(pair, server_reader, writer))
        try:
            await asyncio.wait((to_server, to_client), return_when=asyncio.FIRST_COMPLETED)
            if pair.silent and not to_server.done():
                await to_server  # the server hung up, and the client can't know
            pair.closed_at = now()
        finally:
            to_server.cancel()
            to_client.cancel()
            await asyncio.gather(to_server, to_client, return_exceptions=True)

    async def _pump(self, pair: Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Passes one direction on until it ends, each piece when it is due."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sending = asyncio.create_task(self._send(pair, pieces, writer))
        loop = asyncio.get_running_loop()
        try:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(CHUNK):
                    pieces.put_nowait((loop.time() + self.delay, data))
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(
        self, pair: Pair, pieces: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await pieces.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            while data and not pair.silent:
                size = self.drip or len(data)
                writer.write(data[:size])
                await writer.drain()
                data = data[size:]
                if self.drip:
                    await asyncio.sleep(self.tick)
