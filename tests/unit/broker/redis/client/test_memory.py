from __future__ import annotations

import asyncio
import contextlib
import os
import sys

import pytest

from callboard.broker.errors import CommandError, ConnectionLostError, EncodeError
from callboard.broker.redis.client.blocking import connect
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.client.memory import MemoryChannel, server_of
from callboard.foundation import MissingPackageError


@pytest.fixture
def name() -> str:
    return f"memory://unit-{os.urandom(4).hex()}"


def opened(url: str) -> MemoryChannel:
    return MemoryChannel(Endpoint.parse(url))


async def test_a_name_is_one_store(name: str) -> None:
    first, second, other = opened(name), opened(name), opened(name + "-other")
    await first.call_within(("SET", "a", "1"), 1)
    assert await second.call_within(("GET", "a"), 1) == b"1"
    assert await other.call_within(("GET", "a"), 1) is None
    assert server_of(Endpoint.parse(name)) is server_of(Endpoint.parse(name))


async def test_answers_are_as_a_server_gives_them(name: str) -> None:
    channel = opened(name)
    await channel.call_within(("HSET", "h", "f", "v"), 1)
    assert await channel.call_within(("HGETALL", "h"), 1) == [b"f", b"v"]
    assert await channel.call_within(("XADD", "s", "1-1", "f", b"\xff"), 1) == b"1-1"
    assert await channel.call_within(("XRANGE", "s", "-", "+"), 1) == [[b"1-1", [b"f", b"\xff"]]]


async def test_errors_are_the_brokers(name: str) -> None:
    channel = opened(name)
    await channel.call_within(("SET", "a", "1"), 1)
    with pytest.raises(CommandError, match="WRONGTYPE"):
        await channel.call_within(("HGET", "a", "f"), 1)
    with pytest.raises(EncodeError):
        await channel.call_within(("SET", "a", "half \ud800"), 1)


async def test_a_blocking_read_waits_for_what_comes(name: str) -> None:
    reader, writer = opened(name), opened(name)
    waiting = asyncio.create_task(reader.call_within(("BLPOP", "l", "0.2"), 5))
    await asyncio.sleep(0)
    await writer.call_within(("RPUSH", "l", "1"), 1)
    assert await waiting == [b"l", b"1"]


async def test_what_takes_too_long_breaks_the_channel(name: str) -> None:
    channel = opened(name)
    with pytest.raises(ConnectionLostError, match="no answer within"):
        await channel.call_within(("BLPOP", "l", "5"), 0.02)
    assert not channel.is_open
    with pytest.raises(ConnectionLostError):
        await channel.call_within(("PING",), 1)


async def test_closing_fails_what_is_under_way(name: str) -> None:
    channel = opened(name)
    call = asyncio.create_task(channel.call_within(("BLPOP", "l", "0.2"), 5))
    await asyncio.sleep(0)
    channel.close("the test is over")
    channel.close("twice")
    with pytest.raises(ConnectionLostError, match="the test is over"):
        await asyncio.wait_for(call, 1)


async def test_a_read_that_was_cancelled_ends_and_leaves_nothing(name: str) -> None:
    reader, writer = opened(name), opened(name)
    for command in (("BLPOP", "l", "0"), ("XREAD", "COUNT", 1, "BLOCK", 0, "STREAMS", "s", "0-0")):
        reading = asyncio.create_task(reader.call_within(command, 60))
        await asyncio.sleep(0)
        await writer.call_within(("SET", "a", "1"), 1)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(reading, 10)
    await writer.call_within(("RPUSH", "l", "1"), 1)
    assert await writer.call_within(("LLEN", "l"), 1) == 1


def test_the_store_outlives_an_event_loop_that_was_closed_over_a_read(name: str) -> None:
    loop = asyncio.new_event_loop()

    async def wait_for_ever() -> None:
        database = server_of(Endpoint.parse(name)).dbs[0]
        database.add_change_callback(lambda: loop.call_soon_threadsafe(loop.stop))

    loop.run_until_complete(wait_for_ever())
    loop.close()

    async def push() -> int:
        length: int = await opened(name).call_within(("RPUSH", "l", "1"), 1)
        return length

    assert (asyncio.run(push()), asyncio.run(push())) == (1, 2)


async def test_without_fakeredis_it_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fakeredis", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'callboard\[testing\]'"):
        server_of(Endpoint.parse(name))
    with pytest.raises(MissingPackageError):
        MemoryChannel(Endpoint.parse(name))


def test_a_thread_has_the_same_store() -> None:
    endpoint = Endpoint.parse(f"memory://thread-{os.urandom(4).hex()}")
    with contextlib.closing(connect(endpoint, 1, "first")) as first:
        assert first.call(("SET", "a", b"\xff")) == b"OK"
    with contextlib.closing(connect(endpoint, 1, "second")) as second:
        assert second.call(("GET", "a")) == b"\xff"
        with pytest.raises(CommandError, match="unknown command"):
            second.call(("NO_SUCH",))


MANY_ERRORS = """#!lua name=many
redis.register_function('many', function()
  local wrong = 0
  for i = 1, 3000 do
    for _ = 1, i % 7 do redis.pcall('nothing' .. i) end
    local text = redis.pcall('HGET', 'a', 'b').err
    if not string.find(tostring(text), 'WRONGTYPE', 1, true) then wrong = wrong + 1 end
  end
  return wrong
end)
"""


async def test_a_function_never_takes_one_error_for_another(name: str) -> None:
    channel = opened(name)
    await channel.call_within(("SET", "a", "1"), 1)
    await channel.call_within(("FUNCTION", "LOAD", MANY_ERRORS), 1)
    assert await channel.call_within(("FCALL", "many", 1, "a"), 10) == 0
