from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from callboard.broker.errors import CommandError, ConnectionLostError, EncodeError, ServerUnavailableError
from callboard.broker.redis.client.blocking import connect
from callboard.broker.redis.client.endpoint import Endpoint
from tests.helpers.eventually import eventually
from tests.helpers.peers import Client, peer, silent
from tests.helpers.servers import ServerProcess

NAME = "callboard-test"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as started:
        yield started


async def in_thread(url: str, *commands: tuple[Any, ...], timeout: float = 5.0) -> list[Any]:
    """Answers to these commands."""

    def talk() -> list[Any]:
        wire = connect(Endpoint.parse(url), timeout, NAME)
        with ExitStack() as stack:
            stack.callback(wire.close)
            return [wire.call(command) for command in commands]

    return await asyncio.to_thread(talk)


async def test_commands_are_answered(server: ServerProcess) -> None:
    answers = await in_thread(server.url, ("SET", "a", b"\xff"), ("GET", "a"), ("CLIENT", "GETNAME"))
    assert answers == [b"OK", b"\xff", NAME.encode()]


async def test_errors_are_the_brokers(server: ServerProcess) -> None:
    with pytest.raises(CommandError, match="unknown command"):
        await in_thread(server.url, ("NO_SUCH",))
    with pytest.raises(EncodeError):
        await in_thread(server.url, ("SET", "a", "half \ud800"))


def saying(data: bytes) -> Callable[[Client], Awaitable[None]]:
    async def talk(client: Client) -> None:
        await client.command()
        await client.say(data)

    return talk


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "closed the connection|reset"),
        (b"$100\r\nhalf", "closed the connection|reset"),
        (b"HTTP/1.1", "Protocol error"),
    ],
    ids=["cut", "cut in an answer", "no server"],
)
async def test_a_connection_that_breaks(data: bytes, reason: str) -> None:
    async with peer(saying(data)) as server:
        with pytest.raises(ConnectionLostError, match=reason):
            await in_thread(server.url, ("PING",))


async def test_no_answer_in_time() -> None:
    async with peer(silent) as server:
        with pytest.raises(ConnectionLostError, match="timed out"):
            await in_thread(server.url, ("PING",), timeout=0.05)


@pytest.mark.parametrize(
    "url", ["redis://a..b", "unix:///no/such.sock", "rediss://127.0.0.1:1?ssl_ca_certs=/no/ca.pem"]
)
async def test_nobody_is_there(url: str) -> None:
    with pytest.raises(ConnectionLostError):
        await in_thread(url)


async def test_a_login_that_is_refused_leaves_no_connection() -> None:
    async def talk(client: Client) -> None:
        await client.command()
        await client.say(b"-WRONGPASS no\r\n")
        assert await client.command() is None

    async with peer(talk, greets=False) as locked:
        with pytest.raises(CommandError, match="WRONGPASS"):
            await in_thread(locked.url.replace("redis://", "redis://:pw@"))
        await eventually(lambda: not locked.tasks)


async def test_a_server_that_loads_its_file_says_so() -> None:
    async with peer(saying(b"-LOADING Redis is loading the dataset in memory\r\n")) as server:
        with pytest.raises(ServerUnavailableError, match="LOADING"):
            await in_thread(server.url, ("PING",))


@pytest.mark.parametrize(
    ("host", "given"), [("h.example", b"h.example"), ("b\u00fccher.example", "b\u00fccher.example")]
)
def test_only_names_that_need_them_load_the_tables_of_international_names(
    host: str, given: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def create_connection(address: tuple[object, int], timeout: float) -> object:
        asked.append(address[0])
        raise OSError("nobody is there")

    monkeypatch.setattr("socket.create_connection", create_connection)
    with pytest.raises(ConnectionLostError):
        connect(Endpoint.parse(f"redis://{host}"), 1.0, NAME)
    assert asked == [given]
