from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.errors import CommandError, ConnectionLostError, OverloadedError, ServerUnavailableError
from callboard.broker.redis.client import connection as link_module
from callboard.broker.redis.client.connection import Link
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.keys import Keys
from callboard.broker.redis.library import library
from tests.helpers.eventually import eventually
from tests.helpers.peers import Client, peer, silent
from tests.helpers.servers import ServerProcess


def link_to(url: str, **settings: float) -> Link:
    return Link(Endpoint.parse(url), Keys("test-link"), BrokerSettings(**settings), "callboard-test")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as started:
        yield started


@pytest.fixture
async def link(server: ServerProcess) -> AsyncIterator[Link]:
    made = link_to(server.url)
    yield made
    made.close()


async def client_id(link: Link) -> int:
    return int(await link.command("CLIENT", "ID"))


async def test_it_connects_when_first_used_and_then_stays(link: Link) -> None:
    assert not link.is_open
    first = await client_id(link)
    assert link.is_open
    assert await client_id(link) == first
    assert await link.command("CLIENT", "GETNAME") == b"callboard-test"


async def test_many_callers_at_once_share_one_connection(link: Link) -> None:
    assert len(set(await asyncio.gather(*(client_id(link) for _ in range(20))))) == 1


async def test_an_error_of_the_server_leaves_the_connection_as_it_is(link: Link) -> None:
    first = await client_id(link)
    with pytest.raises(CommandError, match="unknown command"):
        await link.command("NO_SUCH")
    with pytest.raises(CommandError, match="unknown"):
        await link.command("CONFIG", "NO_SUCH")
    assert await client_id(link) == first


async def test_a_full_server_that_lacks_the_functions_says_so(link: Link) -> None:
    await link.command("FUNCTION", "FLUSH")
    await link.command("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(
            OverloadedError, match=r"lacks the functions of this version.*CONFIG SET maxmemory"
        ):
            await link.run("census", ())
    finally:
        await link.command("CONFIG", "SET", "maxmemory", "0")


async def test_it_connects_again_after_its_client_was_killed(link: Link, server: ServerProcess) -> None:
    first = await client_id(link)
    other = link_to(server.url)
    await other.command("CLIENT", "KILL", "ID", first)
    await eventually(lambda: not link.is_open)
    await link.reconnect(5)
    assert await client_id(link) != first
    other.close()


async def test_a_call_under_way_fails_when_its_client_is_killed(link: Link, server: ServerProcess) -> None:
    first = await client_id(link)
    waiting = asyncio.create_task(link.command("BLPOP", "nothing", 0))
    other = link_to(server.url)

    async def is_blocked() -> bool:
        return b"cmd=blpop" in await other.command("CLIENT", "LIST", "ID", first)

    await eventually(is_blocked)
    await other.command("CLIENT", "KILL", "ID", first)
    with pytest.raises(ConnectionLostError):
        await waiting
    assert await client_id(link) != first, "the next call connects by itself"
    other.close()


async def test_a_call_that_is_not_answered_in_time_breaks_the_connection() -> None:
    async with peer(silent) as server:
        link = link_to(server.url, socket_timeout=0.05)
        with pytest.raises(ConnectionLostError, match=r"no answer within 0\.05 s"):
            await link.command("PING")
        with pytest.raises(ConnectionLostError, match=r"no answer within 0\.02 s"):
            await link.command("PING", timeout=0.02)
        assert server.connections == 2
        link.close()


async def test_breaking_off_fails_the_calls_under_way(link: Link) -> None:
    await client_id(link)
    waiting = asyncio.create_task(link.command("BLPOP", "nothing", 0))
    await asyncio.sleep(0)
    link.break_off("changed my mind")
    with pytest.raises(ConnectionLostError, match="changed my mind"):
        await waiting
    await client_id(link)


# Functions


async def test_functions_are_loaded_when_they_are_missing(link: Link) -> None:
    await link.command("FUNCTION", "FLUSH")
    assert await link.run("idle", ()) == [0, 0, 0, b"", b""]
    (found,) = await link.command("FUNCTION", "LIST")
    assert library().name.encode() in found


async def test_functions_are_loaded_again_after_a_flush(link: Link) -> None:
    await link.run("idle", ())
    await link.command("FUNCTION", "FLUSH")
    assert await link.run("idle", ()) == [0, 0, 0, b"", b""]


async def test_many_may_find_them_missing_at_once(link: Link, server: ServerProcess) -> None:
    await link.command("FUNCTION", "FLUSH")
    links = [link_to(server.url) for _ in range(8)]
    answers = await asyncio.gather(*(one.run("idle", ()) for one in links for _ in range(3)))
    assert answers == [[0, 0, 0, b"", b""]] * 24
    for one in links:
        one.close()


async def test_functions_are_loaded_again_after_a_restart() -> None:
    with ServerProcess() as server:
        link = link_to(server.url)
        await link.run("idle", ())
        server.kill()
        await eventually(lambda: not link.is_open)
        server.start()
        await link.reconnect(5)
        assert await link.run("idle", ()) == [0, 0, 0, b"", b""]
        link.close()


async def test_an_error_inside_a_function_is_not_taken_for_a_missing_one(link: Link) -> None:
    await link.command("SET", link.keys.of("timers"), "no sorted set")
    with pytest.raises(CommandError, match="WRONGTYPE"):
        await link.run("idle", ())
    await link.command("DEL", link.keys.of("timers"))


# When there is no server


async def test_connecting_again_gives_up_after_a_time() -> None:
    async with peer(silent) as server:
        link = link_to(server.url)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(ServerUnavailableError):
        await link.reconnect(0.1)
    assert loop.time() - began < 20


async def test_connecting_again_works_as_soon_as_the_server_is_there() -> None:
    with ServerProcess() as server:
        link = link_to(server.url)
        server.kill()
        with pytest.raises(ServerUnavailableError):
            await link.command("PING")
        back = asyncio.create_task(link.reconnect(30))
        await asyncio.to_thread(server.start)
        await asyncio.wait_for(back, 10)
        assert await link.command("PING") == b"PONG"
        link.close()


async def test_a_call_whose_answer_is_lost_is_repeated_until_it_is_lost_for_too_long() -> None:
    left = 2

    async def talk(client: Client) -> None:
        nonlocal left
        await client.command()
        left -= 1
        if left < 0:
            await client.say(b"+PONG\r\n")

    async with peer(talk) as server:
        link = link_to(server.url)
        assert await link.despite_losses(lambda: link.command("PING")) == b"PONG"
        assert server.connections == 3
        left = 1_000_000
        with pytest.raises(ConnectionLostError):
            await link_to(server.url, socket_timeout=0.1).despite_losses(lambda: link.command("PING"))
        link.close()


async def test_a_connection_that_breaks_while_it_is_greeted_is_made_again() -> None:
    """By a proxy whose server is away for a moment, for example: it takes the connection, and closes it."""
    left = 2

    async def talk(client: Client) -> None:
        nonlocal left
        left -= 1
        while left < 0 and await client.command() is not None:
            await client.say(b"+PONG\r\n")

    async with peer(talk, greets=False) as server:
        link = link_to(server.url)
        assert await link.despite_losses(lambda: link.command("PING")) == b"PONG"
        assert server.connections == 3
        left = 1_000_000
        impatient = link_to(server.url, connect_timeout=0.1)
        with pytest.raises(ServerUnavailableError):
            await impatient.despite_losses(lambda: impatient.command("PING"))
        link.close()


async def test_a_server_that_reads_its_file_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    left = 6

    async def talk(client: Client) -> None:
        nonlocal left
        while await client.command() is not None:
            left -= 1
            await client.say(
                b"+PONG\r\n" if left < 0 else b"-LOADING Redis is loading the dataset in memory\r\n"
            )

    async with peer(talk, greets=False) as server:
        # Each connection that is refused in its greeting was one word of it.
        link = link_to(server.url, connect_timeout=0.1)
        assert await link.despite_losses(lambda: link.command("PING")) == b"PONG"
        assert left < 0
        assert caplog.text.count("reads its file") == 1
        link.close()


async def test_a_link_that_is_closed_does_not_wait_for_a_server_that_reads_its_file() -> None:
    async def talk(client: Client) -> None:
        while await client.command() is not None:
            await client.say(b"-LOADING Redis is loading the dataset in memory\r\n")

    async with peer(talk) as server:
        link = link_to(server.url)
        waiting = asyncio.create_task(link.despite_losses(lambda: link.command("PING")))
        await eventually(lambda: server.connections > 0)
        link.close()
        with pytest.raises(ServerUnavailableError):
            await asyncio.wait_for(waiting, 30)


async def test_a_link_that_is_closed_repeats_nothing() -> None:
    links: list[Link] = []

    async def talk(client: Client) -> None:
        await client.command()
        links[0].close()

    async with peer(talk) as server:
        links.append(link := link_to(server.url))
        with pytest.raises(ConnectionLostError):
            await asyncio.wait_for(link.despite_losses(lambda: link.command("PING")), 10)
        assert server.connections == 1


# Closing


async def test_a_closed_link_stays_closed(link: Link) -> None:
    await client_id(link)
    link.close()
    assert link.is_closed
    assert not link.is_open
    with pytest.raises(ConnectionLostError, match="the link was closed"):
        await link.command("PING")


async def test_a_closed_link_does_not_try_to_connect_again(link: Link) -> None:
    link.close()
    with pytest.raises(ConnectionLostError, match="the link was closed"):
        await asyncio.wait_for(link.reconnect(60), 5)


async def test_a_link_that_is_closed_while_it_connects_leaves_no_connection(
    monkeypatch: pytest.MonkeyPatch, server: ServerProcess
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    channels = []

    async def slowly(*arguments: object) -> link_module.Channel:
        begun.set()
        await go.wait()
        channels.append(await opening(*arguments))  # type: ignore[arg-type]
        return channels[0]

    opening = link_module.open_channel
    monkeypatch.setattr(link_module, "open_channel", slowly)
    link = link_to(server.url)
    call = asyncio.create_task(link.command("PING"))
    await begun.wait()
    link.close()
    go.set()
    with pytest.raises(ConnectionLostError, match="the link was closed"):
        await call
    assert not channels[0].is_open


async def test_callers_wait_for_a_slow_connection_together() -> None:
    async def talk(client: Client) -> None:
        while await client.command() is not None:
            await client.say(b"+PONG\r\n")

    async with peer(talk) as server:
        link = link_to(server.url)
        assert await asyncio.gather(*(link.command("PING") for _ in range(5))) == [b"PONG"] * 5
        assert server.connections == 1
        link.close()


async def test_who_gives_up_before_the_role_is_known_leaves_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def greets_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"callboard\r\n")
        writer.write(b"+OK\r\n")
        await reader.readuntil(b"ROLE\r\n")
        asked.set()
        await reader.read()
        ended.set()
        writer.close()

    async with await asyncio.start_server(greets_only, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]

        async def located(endpoint: Endpoint, timeout: float) -> Endpoint:
            return Endpoint("redis", "127.0.0.1", port)

        monkeypatch.setattr(link_module, "locate", located)
        watched = Endpoint.parse("redis+sentinel://a/mymaster")
        opening = asyncio.create_task(link_module.open_channel(watched, "callboard", BrokerSettings()))
        await asked.wait()
        opening.cancel()
        async with asyncio.timeout(20):
            await ended.wait()
