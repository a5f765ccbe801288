"""What nobody would hear: said once, refused where that is wanted, and never at the cost of what is heard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from callboard import (
    AgentId,
    App,
    BaseAgent,
    MessageContext,
    RedisAgentRuntime,
    RoutedAgent,
    TopicId,
    TypePrefixSubscription,
    UnheardError,
    event,
    rpc,
)
from callboard.broker.redis.client.connection import Link
from callboard.broker.redis.client.transport import subscribers_of
from callboard.runtime import sending as audience
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Listener, Note, Runtimes, listener, stored

NEWS = TopicId("news", "a")


class Clerk(RoutedAgent):
    """Takes notes as events, and questions as requests only."""

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None: ...

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        return Answer()


class Curious(Clerk):
    """Does something with every other message."""

    async def on_unhandled_message(self, message: object, ctx: MessageContext) -> None: ...


class Anything(BaseAgent):
    """Takes what comes."""

    async def on_message_impl(self, message: object, ctx: MessageContext) -> None: ...


def _app(agent_class: type[BaseAgent] = Clerk) -> App:
    app = App("app")
    app.agent("clerk", topics=["news"])(agent_class)
    return app


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


async def test_a_topic_that_nobody_subscribes_to_is_said_once(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = runtimes.of(_app(), types=())
    for message in (Note(), Note(), Ask(), "text"):
        await runtime.publish_message(message, TopicId("newz", "a"))
    await runtime.close()
    (said,) = _said(caplog)
    assert said.startswith("nothing subscribes to the topic 'newz' (what is published there waits")
    assert said.endswith("Did you mean 'news'?")


async def test_who_knows_says_nothing(runtimes: Runtimes, caplog: pytest.LogCaptureFixture) -> None:
    runtime = runtimes.new()
    await runtime.publish_message(Note(), NEWS, strict=False)
    await runtime.close()
    assert _said(caplog) == []


async def test_a_class_that_no_subscriber_handles_is_said_once(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = runtimes.of(_app())
    for message in (Note(), Ask(), Ask(), Answer()):
        await runtime.publish_message(message, NEWS)
    await runtime.close()
    assert _said(caplog) == [
        f"{name} is published to 'news', and of its subscribers (clerk) none handles it: "
        f"give one of them a method with @event and `message: {name}`"
        for name in ("Ask", "Answer")
    ]


@pytest.mark.parametrize("agent_class", [Curious, Anything])
async def test_where_it_can_not_be_known_nothing_is_said(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture, agent_class: type[BaseAgent]
) -> None:
    runtime = runtimes.of(_app(agent_class))
    await runtime.publish_message(Ask(), NEWS, strict=True)
    await runtime.close()
    assert _said(caplog) == []


async def test_who_subscribes_in_another_process_is_found(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture
) -> None:
    there = runtimes.new()
    await listener(there, "listener", "news")
    await there.add_subscription(TypePrefixSubscription("order.", "listener"))
    await there.open()
    here = runtimes.new()
    for topic in ("news", "order.new", "listener:direct"):
        await here.publish_message(Ask(), TopicId(topic, "a"), strict=True)
    await here.publish_message(Ask(), NEWS)
    await here.close()
    assert _said(caplog) == []


async def test_what_only_the_publisher_itself_would_hear_is_said(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[str] = []

    class Talker(Listener):
        """Talks to itself."""

        @event
        async def on_ask(self, message: Ask, ctx: MessageContext) -> None:
            await self.publish_message(Note(), TopicId("diary", "b"))  # another agent of its type
            await self.publish_message(Note(), TopicId("diary", self.id.key))
            with pytest.raises(UnheardError) as error:
                await self.publish_message(Note(), "diary", strict=True)
            refused.append(str(error.value))

    runtime = await runtimes.started()
    await Talker.register(runtime, "talker", lambda: Talker([]))
    await runtime.add_subscription(TypePrefixSubscription("diary", "talker"))
    await runtime.publish_message(Ask(), TopicId("diary", "a"))
    await runtime.stop_when_idle()
    await runtime.close()
    assert len(refused) == 1
    assert all("self.remind" in text for text in (*refused, *_said(caplog)))


@pytest.mark.parametrize(
    ("message", "topic", "reason"),
    [(Note(), "newz", "nothing subscribes"), (Ask(), "news", "none handles it")],
    ids=["nobody", "no handler"],
)
async def test_strict_refuses_it(runtimes: Runtimes, message: object, topic: str, reason: str) -> None:
    runtime = runtimes.of(_app())
    with pytest.raises(UnheardError, match=rf"nothing was published to {topic}/a: .*{reason}"):
        await runtime.publish_message(message, TopicId(topic, "a"), strict=True)
    assert await stored(runtime, f"topic:{topic}") == ([] if topic == "newz" else ["topic:news"])
    await runtime.publish_message(Note(), NEWS, strict=True)


async def test_what_is_heard_costs_no_call(runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def ask(link: Link, topics: Sequence[str]) -> dict[str, frozenset[str]]:
        asked.extend(topics)
        return {topic: frozenset() for topic in topics}

    monkeypatch.setattr(audience, "subscribers_of", ask)
    monkeypatch.setattr(audience, "PAUSE", 3600.0)
    runtime = runtimes.of(_app())
    await runtime.publish_message(Note(), NEWS, strict=True)
    await runtime.publish_message(Note(), NEWS, sender=AgentId("other", "a"))
    assert asked == []
    for number in range(100):
        await runtime.publish_message(Note(), TopicId(f"newz{number}", "a"))
    await eventually(lambda: asked)
    assert len(asked) <= audience.AT_ONCE + 1


async def test_of_many_topics_the_server_is_asked_together(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = runtimes.new()
    await listener(there, "listener", "news")
    await there.add_subscription(TypePrefixSubscription("order.", "listener"))
    await there.open()
    asked: list[Sequence[str]] = []
    published = asyncio.Event()

    async def count(link: Link, topics: Sequence[str]) -> dict[str, frozenset[str]]:
        asked.append(topics)
        await published.wait()
        return await subscribers_of(link, topics)

    monkeypatch.setattr(audience, "subscribers_of", count)
    here = runtimes.new()
    names = ["news", "order.new", "order.", "order", *(f"newz{number}" for number in range(10))]
    await asyncio.gather(*(here.publish_message(Ask(), TopicId(name, "a")) for name in names * 2))
    published.set()
    await here.close()
    assert {name for topics in asked for name in topics} == set(names)
    assert len(asked) <= 3, "with the question of the first, of those that came meanwhile, and when it closes"
    said = [text.split("'")[1] for text in _said(caplog)]
    assert sorted(said) == sorted(["order", *(f"newz{number}" for number in range(10))])


async def test_who_subscribes_later_is_heard_of(runtimes: Runtimes) -> None:
    runtime: RedisAgentRuntime = await runtimes.started()
    assert await runtime.unheard(Note, NEWS) is not None
    heard = await listener(runtime, "listener", "news")
    assert await runtime.unheard(Note, "news") is None
    await runtime.publish_message(Note(), NEWS, strict=True)
    await runtime.stop_when_idle()
    assert len(heard) == 1
