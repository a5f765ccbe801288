"""A server for one test that says what the test tells it to, to see how a connection behaves."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import hiredis

Command = list[bytes]


class Client:
    """One connection, seen from the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._parser = hiredis.Reader()

    async def command(self) -> Command | None:
        """The next command; None when the connection is closed."""
        while (command := self._parser.gets()) is False:
            data = await self.read(65536)
            if not data:
                return None
            self._parser.feed(data)
        assert isinstance(command, list)
        return command

    async def read(self, most: int) -> bytes:
        """Bytes as they come; none when the connection is closed."""
        return await self._reader.read(most)

    async def say(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def cut(self) -> None:
        self._writer.transport.abort()


Talk = Callable[[Client], Awaitable[None]]


class Peer:
    """Greets as a server does, then does what the test says."""

    def __init__(self, talk: Talk, greets: bool) -> None:
        self._talk = talk
        self._greets = greets
        self.url = ""
        self.connections = 0
        self.commands: list[Command] = []
        self.tasks: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.connections += 1
        client = Client(reader, writer)
        try:
            if self._greets:
                self.commands.append(await client.command() or [])
                await client.say(b"+OK\r\n")
            await self._talk(client)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the other side went first, or the test is over
        finally:
            client.cut()
            self.tasks.discard(task)


@contextlib.asynccontextmanager
async def peer(talk: Talk, *, greets: bool = True, tls: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    """A server on a port of the loopback, until the end of the block."""
    made = Peer(talk, greets)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    made.url = f"{'rediss' if tls else 'redis'}://127.0.0.1:{port}"
    try:
        yield made
    finally:
        # A connection that was just accepted gets its task some turns of the loop later, and none once this is closed.
        for _ in range(5):
            await asyncio.sleep(0)
        server.close()
        for task in made.tasks:
            task.cancel()
        if made.tasks:
            await asyncio.wait(made.tasks)


async def silent(client: Client) -> None:
    """Hears everything and never answers."""
    while await client.command() is not None:
        pass
