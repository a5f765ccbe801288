"""Reading along: what comes from now on, without a trace in the server, until the reader or the runtime goes."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import AgentId, MessageContext, RedisAgentRuntime, TopicId
from callboard.errors import SettingValueError
from callboard.runtime.topic_reader import Following
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes, listener, stored

PIECES = TopicId("pieces", "ada")


async def _say(runtime: RedisAgentRuntime, *texts: str, key: str = "ada", **options: Any) -> None:
    for text in texts:
        await runtime.publish_message(Note(text=text), TopicId("pieces", key), **options)


async def _take(following: Following, count: int) -> list[str]:
    """The texts of so many messages."""
    found: list[str] = []
    async with asyncio.timeout(10):
        async for message, _ in following:
            found.append(message.text)
            if len(found) == count:
                break
    return found


async def _reader(runtimes: Runtimes, **options: Any) -> RedisAgentRuntime:
    """A process that only reads."""
    runtime = runtimes.new(**options)
    runtime.add_message_types([Note])
    await runtime.open()
    return runtime


async def test_what_comes_from_now_on(runtimes: Runtimes) -> None:
    runtime, reader = runtimes.new(), await _reader(runtimes)
    await _say(runtime, "before")
    before = await stored(runtime)
    async with reader.follow("pieces") as pieces:
        await _say(runtime, "a", "b", sender=AgentId("writer", "w"), message_id="first")
        await _say(runtime, "c", key="bob")
        assert await _take(pieces, 1) == ["a"]
        assert await _take(pieces, 1) == ["c"]  # the second "b" had the id of the first
        assert sorted(await stored(runtime)) == sorted({*before, "dedupe"})
        groups = await runtime.transport.admin.command(
            "XINFO", "GROUPS", runtime.transport.keys.of("topic:pieces")
        )
        assert groups == []


async def test_what_its_context_says(runtimes: Runtimes) -> None:
    runtime, reader = runtimes.new(), await _reader(runtimes)
    async with reader.follow(PIECES) as pieces:
        await _say(runtime, "a", sender=AgentId("writer", "w"), message_id="first")
        async for message, ctx in pieces:
            assert message == Note(text="a")
            assert isinstance(ctx, MessageContext)
            assert (ctx.sender, ctx.topic_id, ctx.is_rpc) == (AgentId("writer", "w"), PIECES, False)
            assert ctx.message_id == "first"
            break


@pytest.mark.parametrize(
    ("topic", "options"),
    [(PIECES, {}), ("pieces/ada", {}), ("pieces", {"key": "ada"}), (PIECES, {"key": "ada"})],
    ids=str,
)
async def test_of_one_source(runtimes: Runtimes, topic: TopicId | str, options: dict[str, Any]) -> None:
    runtime = await _reader(runtimes)
    await _say(runtime, "old")
    async with runtime.follow(topic, **options) as pieces:
        await _say(runtime, "no", key="bob")
        await _say(runtime, "yes")
        assert await _take(pieces, 1) == ["yes"]


async def test_from_the_start_and_from_the_newest(runtimes: Runtimes) -> None:
    runtime = await _reader(runtimes)
    texts = [str(number) for number in range(250)]
    await _say(runtime, *texts)
    await _say(runtime, *(["other"] * 120), key="bob")
    assert await _take(runtime.follow(PIECES, from_start=True), 250) == texts
    assert await _take(runtime.follow(PIECES, last=3), 3) == texts[-3:]
    assert await _take(runtime.follow(PIECES, last=999), 250) == texts
    async with runtime.follow(PIECES, last=1) as pieces:
        await _say(runtime, "new")
        assert await _take(pieces, 2) == ["249", "new"]


async def test_agents_get_every_message_all_the_same(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "listener", "pieces")
    async with runtime.follow("pieces") as pieces:
        await _say(runtime, "a", "b")
        assert await _take(pieces, 2) == ["a", "b"]
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["a", "b"]


async def test_a_loop_that_is_left_leaves_no_connection(runtimes: Runtimes) -> None:
    runtime = await _reader(runtimes)
    await _say(runtime, "a")
    following = runtime.follow("pieces", from_start=True)
    async for _ in following:
        break
    gc.collect()
    await eventually(lambda: following._is_over)
    assert following._reader is not None
    assert following._reader.is_closed


async def test_it_ends_with_the_runtime(runtimes: Runtimes) -> None:
    runtime = await _reader(runtimes)
    found: list[str] = []

    async def follow() -> None:
        async for message, _ in runtime.follow("pieces", from_start=True):
            found.append(message.text)

    task = asyncio.create_task(follow())
    await _say(runtime, "a")
    await eventually(lambda: found)
    await runtime.close()
    async with asyncio.timeout(5):
        await task
    assert found == ["a"]


async def test_what_can_not_be_read_is_said_and_passed_over(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture
) -> None:
    class Stranger(BaseModel):
        """Not known to the reader."""

    runtime, reader = runtimes.new(), await _reader(runtimes)
    async with reader.follow("pieces") as pieces:
        await runtime.publish_message(Stranger(), PIECES)
        await runtime.publish_message(Stranger(), PIECES)
        await runtime.transport.admin.command(
            "XADD", runtime.transport.keys.of("topic:pieces"), "*", "junk", "1"
        )
        await _say(runtime, "large" * 50_000, claim_check=True)
        assert await _take(pieces, 1) == ["large" * 50_000]
    said = [record.message for record in caplog.records if "can't be read here" in record.message]
    assert len(said) == 2
    assert "Stranger" in said[0]
    assert "no field `type`" in said[1]


@pytest.mark.parametrize("before", [0, 3])
async def test_who_is_too_far_behind_is_told(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture, before: int
) -> None:
    runtime = await _reader(runtimes)
    admin, stream = runtime.transport.admin, runtime.transport.keys.of("topic:pieces")
    await _say(runtime, *"xyz"[:before])
    async with runtime.follow("pieces") as pieces:
        await _say(runtime, *"ab")
        assert await _take(pieces, 2) == ["a", "b"]
        await _say(runtime, *"cdef")
        await admin.command("XTRIM", stream, "MAXLEN", "=", 4)  # what was read
        assert await _take(pieces, 2) == ["c", "d"]
        assert "messages were gone" not in caplog.text
        await _say(runtime, *"ghi")
        assert await _take(pieces, 2) == ["e", "f"]  # both are here already
        await admin.command("XTRIM", stream, "MAXLEN", "=", 2)
        assert await _take(pieces, 2) == ["h", "i"]
    assert caplog.text.count("messages were gone") == 1


async def test_a_stream_that_keeps_nothing_that_was_handled_is_no_gap(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = await _reader(runtimes)
    admin, stream = runtime.transport.admin, runtime.transport.keys.of("topic:pieces")
    async with runtime.follow("pieces") as pieces:
        for text in "abc":
            await _say(runtime, text)
            assert await _take(pieces, 1) == [text]
            await admin.command("XTRIM", stream, "MAXLEN", "=", 0)
    assert "messages were gone" not in caplog.text


@pytest.mark.real_server("the stand-in has no connections that could be lost")
async def test_a_server_that_lost_its_tail_is_read_on(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = await _reader(runtimes)
    await _say(runtime, "a")
    admin, stream = runtime.transport.admin, runtime.transport.keys.of("topic:pieces")
    async with runtime.follow("pieces", last=1) as pieces:
        assert await _take(pieces, 1) == ["a"]
        taking = asyncio.create_task(_take(pieces, 1))
        await eventually(lambda: _blocked(runtime))
        await admin.command("DEL", stream)
        (connection,) = await _blocked(runtime)
        await admin.command("CLIENT", "KILL", "ID", connection)
        await eventually(lambda: "messages were gone" in caplog.text)
        await admin.command("XADD", stream, "5-1", "type", "Note", "body", '{"text": "b"}')
        assert await taking == ["b"]


async def _blocked(runtime: RedisAgentRuntime) -> list[str]:
    """The connections that wait for something of a follower to come."""
    listed = (await runtime.transport.admin.command("CLIENT", "LIST")).decode().splitlines()
    fields = [dict(pair.partition("=")[::2] for pair in line.split()) for line in listed]
    return [one["id"] for one in fields if one["name"] == "callboard-tail" and "b" in one["flags"]]


@pytest.mark.parametrize(
    ("topic", "options"),
    [
        ("pieces", {"last": -1}),
        ("pieces", {"last": "3"}),
        ("pieces", {"last": 1, "from_start": True}),
        (PIECES, {"key": "bob"}),
        ("a b", {}),
    ],
    ids=str,
)
async def test_what_can_not_be_followed(
    runtimes: Runtimes, topic: TopicId | str, options: dict[str, Any]
) -> None:
    runtime = runtimes.new()
    expected = ValueError if topic == "a b" else SettingValueError
    with pytest.raises(expected):
        runtime.follow(topic, **options)
