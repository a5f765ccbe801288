"""Claim checks: large bodies lie beside their stream, as long as somebody needs them and no longer."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from pydantic import BaseModel

from callboard import (
    AgentId,
    App,
    ClosureContext,
    MessageContext,
    RedisAgentRuntime,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    event,
    rpc,
)
from callboard.broker.errors import PayloadTooLargeError
from callboard.broker.redis.operations import deadletters
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure, letters, listener, stored

LARGE = "x" * 5000


class Scan(BaseModel):
    """An event with bytes."""

    page: bytes


async def _entry(runtime: RedisAgentRuntime, stream: str) -> dict[str, bytes]:
    """The newest entry of a stream."""
    key = runtime.transport.keys.of(stream)
    ((_, flat),) = await runtime.transport.admin.command("XREVRANGE", key, "+", "-", "COUNT", 1)
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


async def _blobs(runtime: RedisAgentRuntime) -> list[str]:
    return await stored(runtime, "blob")


async def test_a_large_message_is_refused_and_the_error_says_what_to_do(runtimes: Runtimes) -> None:
    runtime = runtimes.new(settings={"max_payload": 2000})
    with pytest.raises(PayloadTooLargeError, match="claim_check=True"):
        await runtime.publish_message(Note(text=LARGE), TopicId("news", "a"))
    with pytest.raises(PayloadTooLargeError, match="CALLBOARD_CLAIM_CHECK"):
        await runtime.publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=False)


async def test_its_bytes_lie_beside_the_stream_until_it_was_handled(runtimes: Runtimes) -> None:
    runtime = runtimes.new(settings={"max_payload": 2000})
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=True)
    entry = await _entry(runtime, "topic:news")
    assert sum(len(name) + len(value) for name, value in entry.items()) < 1024
    assert entry["body"].startswith(b'{"claim":"blob:')
    assert b'"bytes":50' in entry["body"], "a person can read it"
    assert len(await _blobs(runtime)) == 2, "the bytes, and when to look at them"
    runtime.start()
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == [LARGE]
    assert await _blobs(runtime) == []


async def test_what_is_asked_for_lies_beside_the_stream_whatever_its_size(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Note(text="small"), TopicId("news", "a"), claim_check=True)
    assert (await _entry(runtime, "topic:news"))["body"].startswith(b'{"claim":')
    runtime.start()
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["small"]
    assert await _blobs(runtime) == []


async def test_a_setting_says_it_for_all_that_is_large(runtimes: Runtimes) -> None:
    runtime = runtimes.new(settings={"max_payload": 2000, "claim_check": True})
    heard = await listener(runtime, "listener", "news")
    for text in ("small", LARGE):
        await runtime.publish_message(Note(text=text), TopicId("news", "a"))
    assert len(await _blobs(runtime)) == 2
    with pytest.raises(PayloadTooLargeError):
        await runtime.publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=False)
    runtime.start()
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["small", LARGE]
    assert await _blobs(runtime) == []


async def test_there_is_a_limit_for_them_too(runtimes: Runtimes) -> None:
    runtime = runtimes.new(settings={"max_payload": 100, "max_claim": 2000})
    with pytest.raises(PayloadTooLargeError, match="max_claim"):
        await runtime.publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=True)


async def test_a_worker_does_not_fetch_more_than_its_limit(runtimes: Runtimes) -> None:
    worker = await runtimes.started(settings={"max_claim": 2000})
    heard = await listener(worker, "listener", "news")
    await runtimes.new().publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=True)
    await worker.stop_when_idle()
    (letter,) = await letters(worker, "listener")
    assert "the limit for claim checks is 2,000" in letter["reason"]
    assert heard == []


@pytest.mark.parametrize("text", ["x" * 200, "[" * 50])
async def test_bytes_are_looked_at_before_they_are_decoded(runtimes: Runtimes, text: str) -> None:
    worker = await runtimes.started(settings={"max_elements": 1000})
    await listener(worker, "listener", "news")
    await worker.publish_message(Note(text=text), TopicId("news", "a"), claim_check=True, delay=60)
    (name, _) = await _blobs(worker)
    deep = b"\x91" * 40 + b"\x01" if text.startswith("[") else b"\xdc\x07\xd0" + b"\x01" * 2000
    key = worker.transport.keys.of(name)
    size = len(deep)
    await worker.transport.admin.command("HSET", key, "body", deep)
    (timer,) = await stored(worker, "timer:")
    pointer = f'{{"claim":"{name}","bytes":{size}}}'
    await worker.transport.admin.command("HSET", worker.transport.keys.of(timer), "body", pointer)
    await worker.transport.admin.command("ZADD", worker.transport.keys.of("timers"), 1, f"m|{timer[6:]}")
    await eventually(lambda: letters(worker, "listener"))
    (letter,) = await letters(worker, "listener")
    assert letter["reason"].startswith("decode: ")
    assert (
        "nested deeper" in letter["reason"] or "values" in letter["reason"] or "elements" in letter["reason"]
    )


# Who still needs them


async def test_they_stay_until_every_subscriber_has_handled_them(runtimes: Runtimes) -> None:
    first, second = runtimes.new(types=["first"]), runtimes.new(types=["second"])
    for runtime, name in ((first, "first"), (second, "second")):
        await listener(runtime, name, "news")
        await runtime.open()
    await first.publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=True)
    first.start()
    await eventually(lambda: first.handled == 1)
    await first.stop()
    assert len(await _blobs(first)) == 2
    second.start()
    await second.stop_when_idle()
    assert await _blobs(second) == []


async def test_those_of_a_topic_without_subscribers_wait_for_the_first(runtimes: Runtimes) -> None:
    publisher = runtimes.new()
    await publisher.publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=True)
    assert len(await _blobs(publisher)) == 2
    late = await runtimes.started()
    heard = await listener(late, "late", "news")
    await late.stop_when_idle()
    assert [one.text for one in heard] == [LARGE]
    assert await _blobs(publisher) == []


async def test_a_dead_letter_keeps_them_until_it_is_replayed(runtimes: Runtimes) -> None:
    is_broken = True
    heard: list[str] = []

    async def read(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        if is_broken:
            raise ValueError("not now")
        heard.append(message.text)

    runtime = await runtimes.started()
    await closure(runtime, "reader", read, "news")
    others = await listener(runtime, "listener", "news")
    await runtime.publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=True)
    await runtime.stop_when_idle()
    assert len(others) == 1
    (letter,) = await deadletters.list_letters(runtime.transport, "reader")
    assert letter.payload["bytes"] > 5000
    assert len(await _blobs(runtime)) == 2
    is_broken = False
    await deadletters.replay(runtime.transport, "reader")
    assert len(await _blobs(runtime)) == 2
    runtime.start()
    await runtime.stop_when_idle()
    assert heard == [LARGE]
    assert await _blobs(runtime) == []


async def test_a_discarded_dead_letter_takes_them_along(runtimes: Runtimes) -> None:
    async def fail(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        raise ValueError("never")

    runtime = await runtimes.started()
    for name in ("first", "second"):
        await closure(runtime, name, fail, "news")
    await runtime.publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=True)
    await runtime.stop_when_idle()
    await deadletters.discard(runtime.transport, "first")
    assert len(await _blobs(runtime)) == 2
    await deadletters.discard(runtime.transport, "second")
    assert await _blobs(runtime) == []


async def test_a_delayed_message_keeps_them(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=True, delay=0.05)
    await eventually(lambda: heard)
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == [LARGE]
    assert await _blobs(runtime) == []


async def test_a_message_that_was_sent_before_leaves_none(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    heard = await listener(runtime, "listener", "news")
    for text in (LARGE, LARGE + "other"):
        await runtime.publish_message(
            Note(text=text), TopicId("news", "a"), claim_check=True, message_id='my "own" id'
        )
    await asyncio.gather(
        *(
            runtime.publish_message(
                Note(text=LARGE + n), TopicId("news", "b"), claim_check=True, message_id="i"
            )
            for n in "123"
        )
    )
    assert len(await _blobs(runtime)) == 3
    runtime.start()
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == [LARGE, LARGE + "1"]
    assert await _blobs(runtime) == []


async def test_those_that_lost_their_readers_are_found(runtimes: Runtimes) -> None:
    runtime = runtimes.new(settings={"beat_every": 0.05})
    await listener(runtime, "listener")
    subscription = TypeSubscription("news", "listener")
    await runtime.add_subscription(subscription)
    await listener(runtime, "other", "other")
    await runtime.publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=True)
    await runtime.remove_subscription(subscription.id)
    keys = runtime.transport.keys
    await runtime.transport.admin.command("DEL", keys.of("topic:news"))
    (name, _) = await _blobs(runtime)
    runtime.start()
    await runtime.ready()
    assert await _blobs(runtime) == [name, "blobs"]
    await runtime.transport.admin.command("ZADD", keys.of("blobs"), 1, name)
    await eventually(lambda: _has_none(runtime))


async def _has_none(runtime: RedisAgentRuntime) -> bool:
    return not await _blobs(runtime)


async def test_a_look_leaves_those_that_are_needed(runtimes: Runtimes) -> None:
    runtime = runtimes.new(settings={"beat_every": 0.05}, types=["other"])
    await listener(runtime, "listener", "news")
    await listener(runtime, "other", "other")
    await runtime.publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=True)
    await runtime.publish_message(Note(text=LARGE), TopicId("nobody", "a"), claim_check=True)
    await runtime.publish_message(Note(text=LARGE), TopicId("news", "b"), claim_check=True, delay=60)
    before = await _blobs(runtime)
    assert len(before) == 4
    for name in before[:3]:
        await runtime.transport.admin.command("ZADD", runtime.transport.keys.of("blobs"), 1, name)
    runtime.start()
    await eventually(lambda: _were_looked_at(runtime))
    assert await _blobs(runtime) == before


async def _were_looked_at(runtime: RedisAgentRuntime) -> bool:
    key = runtime.transport.keys.of("blobs")
    return not await runtime.transport.admin.command("ZRANGEBYSCORE", key, "-inf", 1)


async def test_bytes_that_are_gone_make_a_dead_letter_that_says_so(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=True)
    await runtime.publish_message(Note(text="next"), TopicId("news", "a"))
    (name, _) = await _blobs(runtime)
    await runtime.transport.admin.command("DEL", runtime.transport.keys.of(name))
    runtime.start()
    await runtime.stop_when_idle()
    (letter,) = await letters(runtime, "listener")
    assert name in letter["reason"]
    assert "publish the message again" in letter["reason"]
    assert [one.text for one in heard] == ["next"]
    assert "pointer" not in letter["reason"]


# What handlers send, requests and replies


class Relay(RoutedAgent):
    """Publishes what it hears, and fails at first."""

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        await self.publish_message(message, TopicId("echo", "a"), claim_check=True)
        await self.publish_message(message, TopicId("echo", "b"), claim_check=True, now=True)
        if ctx.attempt == 1:
            raise ValueError("after it was published")


async def test_what_a_handler_publishes_leaves_with_its_commit(runtimes: Runtimes) -> None:
    app = App("relaying")
    app.agent("relay", topics=["news"])(Relay)
    runtime = runtimes.of(app)
    heard = await listener(runtime, "listener", "echo")
    await runtime.publish_message(Note(text=LARGE), TopicId("news", "a"), claim_check=True)
    runtime.start()
    await runtime.stop_when_idle()
    assert sorted(one.agent for one in heard) == ["listener/a", "listener/b"]
    assert {one.text for one in heard} == {LARGE}
    assert await _blobs(runtime) == []


async def test_requests_and_replies(runtimes: Runtimes) -> None:
    async def echo(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        return Answer(text=message.text * 2)

    runtime = await runtimes.started(settings={"max_payload": 2000})
    await closure(runtime, "clerk", echo)
    reply = await runtime.send_message(Ask(text=LARGE), AgentId("clerk", "a"), claim_check=True)
    assert reply == Answer(text=LARGE * 2)
    with pytest.raises(PayloadTooLargeError, match="claim_check=True"):
        await runtime.send_message(Ask(text="x" * 1200), AgentId("clerk", "a"))
    await runtime.stop_when_idle()
    assert await _blobs(runtime) == []


async def test_a_reply_that_nobody_waits_for_expires(runtimes: Runtimes) -> None:
    go_on = asyncio.Event()

    async def echo(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        await go_on.wait()
        return Answer(text=LARGE)

    runtime = await runtimes.started(settings={"max_payload": 2000, "claim_check": True})
    await closure(runtime, "clerk", echo)
    asking = asyncio.create_task(runtime.send_message(Ask(), AgentId("clerk", "a")))
    await eventually(lambda: runtime.work.worker is not None and runtime.work.worker.consumer.running)
    asking.cancel()
    await asyncio.wait({asking})
    go_on.set()
    await runtime.stop_when_idle()
    for name in await _blobs(runtime):
        assert 0 < await runtime.transport.admin.command("TTL", runtime.transport.keys.of(name)) <= 60


class Asker(RoutedAgent):
    """Asks in its handler, and fails at first."""

    got: list[str]

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        answer = await self.send_message(Ask(text=LARGE), AgentId("clerk", "a"), claim_check=True)
        self.got.append(answer.text)
        if ctx.attempt == 1:
            raise ValueError("after it was answered")


async def test_a_recorded_reply_keeps_its_bytes_until_the_asker_has_committed(runtimes: Runtimes) -> None:
    asked: list[str] = []
    app = App("asking")
    app.agent("asker", topics=["news"])(Asker)
    Asker.got = []

    @app.agent("clerk")
    class Clerk(RoutedAgent):
        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
            asked.append(message.text)
            return Answer(text=message.text + "!")

    runtime = runtimes.of(app, settings={"max_payload": 2000})
    runtime.start()
    await runtime.publish_message(Note(), TopicId("news", "a"))
    await runtime.stop_when_idle()
    assert asked == [LARGE], "the second attempt gets the recorded reply"
    assert Asker.got == [LARGE + "!"] * 2
    assert await _blobs(runtime) == []


@pytest.mark.parametrize("megabytes", [1, 32])
@pytest.mark.real_server
async def test_bytes_come_back_as_they_were(runtimes: Runtimes, megabytes: int) -> None:
    seen: list[tuple[int, str]] = []

    async def read(agent: ClosureContext, message: Scan, ctx: MessageContext) -> None:
        seen.append((len(message.page), hashlib.sha256(message.page).hexdigest()))

    page = hashlib.shake_128(b"page").digest(megabytes * 2**20)
    runtime = await runtimes.started()
    await closure(runtime, "reader", read, "pages")
    await runtime.publish_message(Scan(page=page), TopicId("pages", "a"), claim_check=True)
    await runtime.stop_when_idle()
    assert seen == [(len(page), hashlib.sha256(page).hexdigest())]
    assert await _blobs(runtime) == []
