"""Publishing: who receives what, when it leaves, and that it arrives once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest
from pydantic import BaseModel

from callboard import (
    AgentId,
    App,
    BaseAgent,
    ClosureContext,
    DefaultSubscription,
    DefaultTopicId,
    MessageContext,
    RedisAgentRuntime,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    default_subscription,
    event,
)
from callboard.broker.errors import EncodeError, PayloadTooLargeError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import (
    Answer,
    Ask,
    Heard,
    Listener,
    Note,
    Runtimes,
    closure,
    letters,
    listener,
    stored,
)


class Basket(BaseModel):
    """Something that can be changed."""

    items: list[str] = []


async def test_the_source_of_a_topic_is_the_key_of_the_agent(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "listener", "news")
    for source in ("a", "b/c d", ""):
        await runtime.publish_message(Note(text=source), TopicId("news", source))
    await runtime.stop_when_idle()
    assert set(heard) == {
        Heard("listener/a", "a", "news/a", None),
        Heard("listener/b/c d", "b/c d", "news/b/c d", None),
        Heard("listener/", "", "news/", None),
    }


async def test_every_subscribed_type_gets_it_and_nobody_is_fine_too(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    first, second = await listener(runtime, "first", "news"), await listener(runtime, "second", "news")
    await runtime.publish_message(Note(text="1"), TopicId("news", "a"), sender=AgentId("somebody", "x"))
    await runtime.publish_message(Note(text="2"), TopicId("lonely", "a"))
    await runtime.stop_when_idle()
    assert first == [Heard("first/a", "1", "news/a", "somebody/x")]
    assert second == [Heard("second/a", "1", "news/a", "somebody/x")]


async def test_an_agent_does_not_hear_itself_but_others_of_its_type_do(runtimes: Runtimes) -> None:
    heard: list[Heard] = []

    class Talker(Listener):
        """Publishes to three keys of the topic that it subscribes to."""

        @event
        async def on_ask(self, message: Ask, ctx: MessageContext) -> None:
            for source in ("a", "b", "c"):
                await self.publish_message(Note(text=source), TopicId("news", source))

    runtime = await runtimes.started()
    await Talker.register(runtime, "talker", lambda: Talker(heard))
    await runtime.add_subscription(TypeSubscription("news", "talker"))
    await runtime.publish_message(Ask(), TopicId("news", "a"))
    await runtime.stop_when_idle()
    assert sorted((one.agent, one.sender) for one in heard) == [
        ("talker/b", "talker/a"),
        ("talker/c", "talker/a"),
    ]


async def test_the_default_topic_is_the_one_of_the_running_agent(runtimes: Runtimes) -> None:
    @default_subscription
    class First(RoutedAgent):
        """Passes on to its own conversation, in events and in requests."""

        @event
        async def on_ask(self, message: Ask, ctx: MessageContext) -> None:
            await asyncio.sleep(0)
            await self.publish_message(Note(text=message.text), DefaultTopicId())

    runtime = await runtimes.started()
    heard: list[Heard] = []
    await First.register(runtime, "first", First)
    await Listener.register(runtime, "listener", lambda: Listener(heard))
    await runtime.add_subscription(DefaultSubscription(agent_type="listener"))
    await runtime.publish_message(Ask(text="1"), TopicId("default", "talk-1"))
    await runtime.publish_message(Ask(text="2"), TopicId("default", "talk-2"))
    await runtime.publish_message(Note(text="3"), DefaultTopicId())
    await runtime.stop_when_idle()
    assert sorted((one.agent, one.text) for one in heard) == [
        ("listener/default", "3"),
        ("listener/talk-1", "1"),
        ("listener/talk-2", "2"),
    ]


async def test_every_recipient_gets_a_copy_of_its_own(runtimes: Runtimes) -> None:
    seen: list[list[str]] = []

    async def change(agent: ClosureContext, message: Basket, ctx: MessageContext) -> None:
        seen.append(list(message.items))
        message.items.append(str(agent.id))

    runtime = await runtimes.started()
    for name in ("first", "second", "third"):
        await closure(runtime, name, change, "baskets")
    basket = Basket(items=["apple"])
    await runtime.publish_message(basket, TopicId("baskets", "a"))
    basket.items.append("too late")
    await runtime.stop_when_idle()
    assert seen == [["apple"]] * 3
    assert basket.items == ["apple", "too late"]


async def test_what_a_handler_publishes_leaves_with_its_commit(runtimes: Runtimes) -> None:
    attempts: list[int] = []

    async def first(agent: ClosureContext, message: Ask, ctx: MessageContext) -> None:
        attempts.append(ctx.attempt)
        await agent.publish_message(Note(text=f"attempt {ctx.attempt}"), TopicId("news", "a"))
        if ctx.attempt == 1:
            raise RuntimeError("half done")

    runtime = await runtimes.started()
    await closure(runtime, "first", first, "work")
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Ask(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert attempts == [1, 2]
    assert [(one.text, one.sender) for one in heard] == [("attempt 2", "first/a")]


async def test_a_handler_that_fails_for_good_has_sent_nothing(runtimes: Runtimes) -> None:
    async def first(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        await agent.publish_message(Note(text="never"), TopicId("news", "a"))
        await agent.publish_message(Note(text="never"), TopicId("news", "a"), delay=0.001)
        raise RuntimeError("no")

    runtime = await runtimes.started()
    await closure(runtime, "first", first, "work")
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Ask(), TopicId("work", "a"))
    with pytest.raises(RuntimeError, match="no"):
        await runtime.send_message(Ask(), AgentId("first", "b"))
    await runtime.stop_when_idle()
    assert heard == []
    assert len(await letters(runtime, "first")) == 1
    assert await stored(runtime, "timer") == []


async def test_now_leaves_at_once_and_once_across_attempts(runtimes: Runtimes) -> None:
    heard_first = asyncio.Event()

    async def first(agent: ClosureContext, message: Ask, ctx: MessageContext) -> None:
        await agent.publish_message(Note(text="1"), TopicId("news", "a"), now=True)
        await heard_first.wait()
        if ctx.attempt < 3:
            raise RuntimeError("again")
        await agent.publish_message(Note(text="2"), TopicId("news", "a"), now=True)
        await agent.publish_message(Note(text="3"), TopicId("news", "a"))

    async def hear(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        heard.append(message.text)
        heard_first.set()

    heard: list[str] = []
    runtime = await runtimes.started()
    await closure(runtime, "first", first, "work")
    await closure(runtime, "hearer", hear, "news")
    await runtime.publish_message(Ask(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert heard == ["1", "2", "3"]


async def test_a_message_with_an_id_of_its_own_counts_once(runtimes: Runtimes) -> None:
    async def first(agent: ClosureContext, message: Ask, ctx: MessageContext) -> None:
        await agent.publish_message(Note(text=message.text), TopicId("news", "a"), message_id="order-2")

    seen: list[str] = []

    async def hear(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        seen.append(f"{message.text} {ctx.message_id}")

    runtime = await runtimes.started()
    await closure(runtime, "first", first, "work")
    await closure(runtime, "hearer", hear, "news")
    for text in ("1", "2"):
        await runtime.publish_message(Note(text=text), TopicId("news", "a"), message_id="order-1")
    for text in ("3", "4"):
        await runtime.publish_message(Ask(text=text), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert seen == ["1 order-1", "3 order-2"]


async def test_ids_are_given_where_none_is_and_are_all_different(runtimes: Runtimes) -> None:
    ids: list[str] = []

    async def hear(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        ids.append(ctx.message_id)

    runtime = await runtimes.started()
    await closure(runtime, "hearer", hear, "news")
    for _ in range(20):
        await runtime.publish_message(Note(), TopicId("news", "a"))
    await runtime.stop_when_idle()
    assert len(set(ids)) == 20
    assert all(ids)


async def test_a_delayed_message_comes_later_and_one_for_the_past_at_once(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "listener", "news")
    topic = TopicId("news", "a")
    await runtime.publish_message(Note(text="late"), topic, delay=0.3)
    await runtime.publish_message(Note(text="later"), topic, at=datetime.now(UTC) + timedelta(seconds=0.4))
    await runtime.publish_message(Note(text="past"), topic, at=datetime.now(UTC) - timedelta(hours=1))
    await runtime.publish_message(Note(text="soon"), topic, delay=0)
    await eventually(lambda: len(heard) == 4)
    assert [one.text for one in heard] == ["past", "soon", "late", "later"]
    assert await stored(runtime, "timer") == []


async def test_a_delayed_message_of_a_handler_leaves_with_its_commit(runtimes: Runtimes) -> None:
    async def first(agent: ClosureContext, message: Ask, ctx: MessageContext) -> None:
        await agent.publish_message(Note(text=f"{ctx.attempt}"), TopicId("news", "a"), delay=0.05)
        if ctx.attempt == 1:
            raise RuntimeError("no")

    runtime = await runtimes.started()
    await closure(runtime, "first", first, "work")
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Ask(), TopicId("work", "a"))
    await eventually(lambda: heard)
    assert [one.text for one in heard] == ["2"]


@pytest.mark.parametrize(
    "when",
    [
        {"delay": -1},
        {"delay": float("nan")},
        {"delay": float("inf")},
        {"at": datetime(2026, 1, 1)},
        {"at": 0.0},
        {"delay": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)},
    ],
)
async def test_a_time_that_can_not_work_is_refused(runtimes: Runtimes, when: dict[str, object]) -> None:
    runtime = await runtimes.started()
    with pytest.raises(ValueError, match=r"delay|time zone|datetime"):
        await runtime.publish_message(Note(), TopicId("news", "a"), **when)  # type: ignore[arg-type]
    await runtime.stop_when_idle()


async def test_what_can_not_be_sent_is_refused_at_the_sender(runtimes: Runtimes) -> None:
    runtime = await runtimes.started(settings={"max_payload": 1000})
    with pytest.raises(PayloadTooLargeError):
        await runtime.publish_message(Note(text="x" * 1001), TopicId("news", "a"))
    with pytest.raises(PayloadTooLargeError):
        await runtime.send_message(Note(text="x" * 1001), AgentId("listener", "a"))
    with pytest.raises(EncodeError):
        await runtime.publish_message(object(), TopicId("news", "a"))
    await runtime.stop_when_idle()


async def test_a_subclass_reaches_the_handler_of_its_base(runtimes: Runtimes) -> None:
    class Urgent(Note):
        """Says how urgent."""

        level: int = 1

    runtime = await runtimes.started()
    heard = await listener(runtime, "listener", "news")
    runtime.add_message_types([Urgent])
    await runtime.publish_message(Urgent(text="u", level=3), TopicId("news", "a"))
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["u"]


async def test_a_task_that_a_handler_leaves_behind_may_publish_too(runtimes: Runtimes) -> None:
    tasks: list[asyncio.Task[None]] = []
    handled = asyncio.Event()

    async def later(agent: ClosureContext) -> None:
        await handled.wait()
        await agent.publish_message(Note(text="from the task"), TopicId("news", "a"))

    async def first(agent: ClosureContext, message: Ask, ctx: MessageContext) -> None:
        tasks.append(asyncio.create_task(later(agent)))

    runtime = await runtimes.started()
    await closure(runtime, "first", first, "work")
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Ask(), TopicId("work", "a"))
    await eventually(lambda: runtime.handled == 1 and not runtime.unprocessed_messages_count)
    handled.set()
    await asyncio.gather(*tasks)
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["from the task"]


async def test_a_handler_may_use_another_runtime(runtimes: Runtimes) -> None:
    """As an agent does that has a team of its own inside: what goes there is no part of this commit."""
    inner = Runtimes(runtimes.url)
    inside = await inner.started()
    heard = await listener(inside, "listener", "news")

    class Outer(BaseAgent):
        """Runs an inner runtime to its end."""

        async def on_message_impl(self, message: object, ctx: MessageContext) -> Answer:
            await inside.publish_message(Note(text="inner"), TopicId("news", "a"))
            await inside.stop_when_idle()
            return Answer(text=",".join(one.text for one in heard))

    app = App("outer")
    app.register("outer", lambda: Outer("has an inner runtime"), expected_class=Outer)
    outside = runtimes.of(app)
    outside.add_message_types([Ask, Answer])
    outside.start()
    answer = await outside.send_message(Ask(), AgentId("outer", "a"))
    await inner.close()
    assert answer == Answer(text="inner")


async def test_a_publisher_that_runs_nothing(runtimes: Runtimes) -> None:
    publisher = runtimes.new()
    worker = runtimes.new()
    heard = await listener(worker, "listener", "news")
    await worker.open()
    await publisher.publish_message(Note(text="1"), TopicId("news", "a"))
    worker.start()
    await worker.stop_when_idle()
    assert [one.text for one in heard] == ["1"]


# Limits of a body


class Numbers(BaseModel):
    """Many values in few bytes."""

    values: list[int]


class Counter(RoutedAgent):
    """Notes how many values came."""

    counts: ClassVar[list[int]] = []

    @event
    async def on_numbers(self, message: Numbers, ctx: MessageContext) -> None:
        self.counts.append(len(message.values))


async def _counter(runtime: RedisAgentRuntime) -> list[int]:
    Counter.counts = []
    await Counter.register(runtime, "counter", lambda: Counter("counts"))
    await runtime.add_subscription(TypeSubscription("news", "counter"))
    return Counter.counts


async def test_as_many_values_are_sent_as_the_setting_allows(runtimes: Runtimes) -> None:
    runtime = await runtimes.started(settings={"max_elements": 200_000})
    counts = await _counter(runtime)
    await runtime.publish_message(Numbers(values=[7] * 150_000), TopicId("news", "a"))
    await runtime.stop_when_idle()
    assert counts == [150_000]


async def test_more_values_than_the_setting_allows_are_refused_and_do_not_become_a_dead_letter(
    runtimes: Runtimes,
) -> None:
    runtime = await runtimes.started(settings={"max_elements": 1_000})
    counts = await _counter(runtime)
    for message in (Numbers(values=[7] * 5_000), [7] * 5_000):
        with pytest.raises(EncodeError, match="more than 1,000 values"):
            await runtime.publish_message(message, TopicId("news", "a"))
    await runtime.stop_when_idle()
    assert counts == []
    assert await letters(runtime, "counter") == []
