"""The proxy does to connections what it says, and nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scripts.chaos_suite.proxy import Proxy
from tests.helpers.eventually import eventually


class Echo:
    """A server that answers with what it gets."""

    def __init__(self) -> None:
        self.clients = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.clients += 1
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            self.clients -= 1
            writer.close()


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
async def proxy(tmp_path: Path, echo: Echo) -> AsyncIterator[Proxy]:
    server = await asyncio.start_unix_server(echo.serve, tmp_path / "s")
    made = Proxy(tmp_path / "s")
    await made.start()
    yield made
    await made.close()
    server.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def says(self, data: bytes) -> bytes:
        self.writer.write(data)
        return await self._reader.readexactly(len(data))

    async def hears_nothing(self, data: bytes) -> bool:
        self.writer.write(data)
        try:
            return not await asyncio.wait_for(self._reader.read(1), 0.2)
        except TimeoutError:
            return True

    async def is_cut(self) -> bool:
        try:
            return not await asyncio.wait_for(self._reader.read(1), 5)
        except ConnectionError:
            return True


class Clients:
    """Makes clients, and closes them at the end."""

    def __init__(self) -> None:
        self._made: list[Client] = []

    async def of(self, proxy: Proxy) -> Client:
        port = int(proxy.url.rpartition(":")[2])
        self._made.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
        return self._made[-1]

    def close(self) -> None:
        for client in self._made:
            client.writer.transport.abort()


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    made = Clients()
    yield made
    made.close()


async def test_passes_everything_on(proxy: Proxy, clients: Clients) -> None:
    client = await clients.of(proxy)
    large = bytes(range(256)) * 4096
    assert await client.says(b"hello") == b"hello"
    assert await client.says(large) == large
    client.writer.close()
    await eventually(lambda: not proxy.pairs)


async def test_a_client_that_hangs_up_ends_the_connection_to_the_server(
    proxy: Proxy, echo: Echo, clients: Clients
) -> None:
    client = await clients.of(proxy)
    await client.says(b"a")
    client.writer.close()
    await eventually(lambda: echo.clients == 0)


async def test_a_cut_is_noticed_by_both_sides_and_new_connections_work(
    proxy: Proxy, echo: Echo, clients: Clients
) -> None:
    three = [await clients.of(proxy) for _ in range(3)]
    for client in three:
        await client.says(b"a")
    assert proxy.cut() == 3
    assert all([await client.is_cut() for client in three])
    await eventually(lambda: echo.clients == 0)
    assert await (await clients.of(proxy)).says(b"again") == b"again"


async def test_a_silent_connection_tells_nobody(proxy: Proxy, echo: Echo, clients: Clients) -> None:
    client = await clients.of(proxy)
    await client.says(b"a")
    (pair,) = proxy.fall_silent()
    assert await client.hears_nothing(b"anybody there?")
    assert pair.closed_at is None
    assert echo.clients == 1
    assert await (await clients.of(proxy)).says(b"new") == b"new"
    client.writer.close()
    await eventually(lambda: pair.closed_at is not None)


async def test_a_delay_holds_each_way(proxy: Proxy, clients: Clients) -> None:
    client = await clients.of(proxy)
    await client.says(b"a")
    proxy.delay = 0.1
    began = time.monotonic()
    await client.says(b"late")
    assert time.monotonic() - began >= 0.2


async def test_a_drip_loses_nothing(proxy: Proxy, clients: Clients) -> None:
    proxy.drip = 100
    client = await clients.of(proxy)
    data = bytes(range(250)) * 20
    assert await client.says(data) == data


async def test_refuses_new_connections(proxy: Proxy, clients: Clients) -> None:
    proxy.refuses = True
    assert await (await clients.of(proxy)).is_cut()
    proxy.refuses = False
    assert await (await clients.of(proxy)).says(b"welcome") == b"welcome"


async def test_a_server_that_is_gone(tmp_path: Path, clients: Clients) -> None:
    lonely = Proxy(tmp_path / "nobody")
    await lonely.start()
    assert await (await clients.of(lonely)).is_cut()
    await lonely.close()
