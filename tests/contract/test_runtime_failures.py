"""Handlers that fail or run too long: attempts, dead letters, and effects that are made once."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from callboard import AgentId, App, ClosureContext, MessageContext, RedisAgentRuntime, TopicId
from callboard.broker import RetryPolicy
from callboard.broker.errors import ConnectionLostError
from callboard.broker.mailbox import ConsumedType, Pull
from callboard.broker.redis.operations import work_checks as outages
from callboard.broker.redis.operations.deadletters import list_letters, replay
from callboard.broker.redis.operations.doctor import Subject
from callboard.broker.redis.operations.inspect import overview
from callboard.cli.commands.views import show_namespace
from callboard.runtime.errors import MaxRuntimeError
from callboard.runtime.execution import current
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure, letters, listener, stored


async def test_an_event_is_tried_as_often_as_its_type_says(runtimes: Runtimes) -> None:
    attempts: dict[str, list[int]] = {"once": [], "five": [], "default": []}
    ids: set[str] = set()
    app = App("attempts")

    async def fail(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        attempts[agent.id.type].append(ctx.attempt)
        ids.add(ctx.message_id)
        raise LookupError("no")

    app.closure("once", topics=["work"], max_attempts=1)(fail)
    app.closure("five", topics=["work"], max_attempts=5)(fail)
    app.closure("default", topics=["work"])(fail)
    runtime = runtimes.of(app, settings={"max_attempts": 2})
    runtime.start()
    await runtime.publish_message(Note(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert attempts == {"once": [1], "five": [1, 2, 3, 4, 5], "default": [1, 2]}
    assert len(ids) == 1, "every attempt has the same message id"
    assert [(await letters(runtime, name))[0]["attempts"] for name in attempts] == ["1", "5", "2"]


async def test_a_key_that_fails_waits_and_others_go_on(runtimes: Runtimes) -> None:
    seen: list[str] = []

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        if message.text == "1" and ctx.attempt == 1:
            raise LookupError("again")
        seen.append(f"{agent.id.key}{message.text}")

    runtime = await runtimes.started(settings={"retry_base": 0.3, "retry_cap": 0.3})
    await closure(runtime, "worker", work, "work")
    for text in ("1", "2"):
        await runtime.publish_message(Note(text=text), TopicId("work", "a"))
    await runtime.publish_message(Note(text="3"), TopicId("work", "b"))
    await eventually(lambda: seen)
    assert seen == ["b3"]
    await runtime.stop_when_idle()
    assert seen == ["b3", "a1", "a2"]


class AwayError(Exception):
    """Something outside is not there."""

    is_outage = True


async def test_an_outage_uses_up_no_attempt_and_keeps_the_order(
    runtimes: Runtimes, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[tuple[str, int]] = []
    seen: list[str] = []
    is_there = False

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        tried.append((message.text, ctx.attempt))
        if agent.id.key == "a" and not is_there:
            raise AwayError("gone fishing")
        seen.append(message.text)

    runtime = await runtimes.started(settings={"max_attempts": 2})
    await closure(runtime, "worker", work, "work")
    for text in ("1", "2"):
        await runtime.publish_message(Note(text=text), TopicId("work", "a"))
    await runtime.publish_message(Note(text="3"), TopicId("work", "b"))
    await eventually(lambda: tried.count(("1", 1)) > 5)
    assert seen == ["3"], "its key waits and others go on"
    waiting = (await overview(runtime.transport)).outages[0]
    assert (waiting.type, waiting.messages, waiting.error) == ("worker", 1, "AwayError: gone fishing")
    show_namespace(await overview(runtime.transport))
    shown = capsys.readouterr().out
    assert re.search(r"waiting for an outage to end: worker, 1 for \d.*: AwayError: gone fishing", shown)
    (finding,) = await outages.examine_outages(Subject(runtime.transport))
    assert str(finding.level) == "warning"
    assert "AwayError: gone fishing" in finding.what
    is_there = True
    await runtime.stop_when_idle()
    assert seen == ["3", "1", "2"]
    assert {attempt for _, attempt in tried} == {1}
    assert await letters(runtime, "worker") == []
    assert (await overview(runtime.transport)).outages == ()


async def test_an_outage_that_does_not_end_is_a_dead_letter_that_says_so(runtimes: Runtimes) -> None:
    attempts: list[int] = []

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        attempts.append(ctx.attempt)
        raise AwayError("gone fishing")

    runtime = await runtimes.started(retry=RetryPolicy(2, base=0.01, cap=0.05, outage=0.2))
    await closure(runtime, "worker", work, "work")
    await runtime.publish_message(Note(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert len(attempts) > 4
    (letter,) = await letters(runtime, "worker")
    assert letter["reason"] == "an outage of more than 0.2 s"
    assert letter["error"] == "AwayError: gone fishing"


async def test_an_attempt_after_an_outage_counts_as_before(runtimes: Runtimes) -> None:
    attempts: list[int] = []

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        attempts.append(ctx.attempt)
        raise LookupError("no") if len(attempts) in (1, 4) else AwayError("gone fishing")

    runtime = await runtimes.started(settings={"max_attempts": 2})
    await closure(runtime, "worker", work, "work")
    await runtime.publish_message(Note(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert attempts == [1, 2, 2, 2]
    (letter,) = await letters(runtime, "worker")
    assert letter["reason"] == "failed"


async def test_what_was_waited_for_an_outage_outlives_the_process(runtimes: Runtimes) -> None:
    waited: list[float] = []

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        delivery: Any = (current.get() or pytest.fail("no execution")).receipt
        waited.append(delivery.waited)
        raise AwayError("gone fishing")

    app = App("away")
    app.closure("worker", topics=["work"])(work)
    await runtimes.of(app).publish_message(Note(), TopicId("work", "a"))
    for _ in range(2):
        runtime, before = runtimes.of(app), len(waited)
        runtime.start()
        await eventually(lambda: len(waited) - before > 3)  # noqa: B023 - it is called here
        await runtime.close()
    assert waited[0] == 0.0
    assert waited == sorted(waited)
    assert len(set(waited)) == len(waited), "it goes on where it was"


async def test_what_can_not_work_better_is_not_tried_again(runtimes: Runtimes) -> None:
    attempts: list[int] = []

    async def answer(agent: ClosureContext, message: Note, ctx: MessageContext) -> Any:
        attempts.append(ctx.attempt)
        await agent.publish_message(object(), TopicId("news", "a"))

    runtime = await runtimes.started()
    await closure(runtime, "worker", answer, "work")
    await runtime.publish_message(Note(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert attempts == [1]
    (letter,) = await letters(runtime, "worker")
    assert letter["reason"] == "permanent"


async def test_a_message_of_an_unknown_class_is_a_dead_letter_at_once(runtimes: Runtimes) -> None:
    publisher, runtime = runtimes.new(), await runtimes.started()
    heard = await listener(runtime, "listener", "news")
    await publisher.publish_message(Ask(text="unknown there"), TopicId("news", "a"))
    await publisher.publish_message(Note(text="good"), TopicId("news", "a"))
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["good"]
    (letter,) = await letters(runtime, "listener")
    assert "Ask" in letter["reason"]
    assert runtime.failed == 1


async def test_a_dead_letter_can_be_replayed_and_is_handled_once(runtimes: Runtimes) -> None:
    is_mended = False
    seen: list[str] = []

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        if not is_mended:
            raise LookupError("no")
        seen.append(f"{ctx.topic_id} {message.text}")

    runtime = await runtimes.started(settings={"max_attempts": 1})
    await closure(runtime, "worker", work, "work")
    await runtime.publish_message(Note(text="x"), TopicId("work", "a"))
    await eventually(lambda: runtime.failed)
    is_mended = True
    await runtime.stop_when_idle()
    (found,) = await list_letters(runtime.transport, "worker")
    for _ in range(2):
        await replay(runtime.transport, "worker", [found.id])
    runtime.start()
    await runtime.stop_when_idle()
    assert seen == ["work/a x"]


# Handlers that run too long


def _hanging(started: list[int]) -> App:
    app = App("hanging")

    @app.closure("hanging", topics=["work"], max_runtime=0.05, max_attempts=2)
    async def hang(agent: ClosureContext, message: Note | Ask, ctx: MessageContext) -> Answer:
        started.append(ctx.attempt)
        if message.text == "hang":
            await agent.publish_message(Note(text="never"), TopicId("news", "a"))
            await asyncio.Event().wait()
        if message.text == "own timeout":
            raise TimeoutError("not the limit's")
        return Answer(text="in time")

    return app


async def test_a_handler_past_its_limit_is_cancelled_tried_again_and_dead_at_last(runtimes: Runtimes) -> None:
    started: list[int] = []
    runtime = runtimes.of(_hanging(started))
    heard = await listener(runtime, "listener", "news")
    runtime.start()
    await runtime.publish_message(Note(text="hang"), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert started == [1, 2]
    assert heard == []
    (letter,) = await letters(runtime, "hanging")
    assert letter["attempts"] == "2"
    assert "max_runtime=0.05" in letter["error"]


async def test_two_types_with_a_limit_may_handle_one_message_at_once(runtimes: Runtimes) -> None:
    seen: list[str] = []
    both = asyncio.Barrier(2)

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        await both.wait()
        seen.append(agent.id.type)

    app = App("limits")
    for name in ("one", "two"):
        app.closure(name, topics=["work"], max_runtime=60, max_attempts=1)(work)
    runtime = runtimes.of(app)
    runtime.start()
    await runtime.publish_message(Note(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert sorted(seen) == ["one", "two"]
    assert [await letters(runtime, name) for name in ("one", "two")] == [[], []]


async def test_a_request_past_the_limit_is_an_error_of_who_asked(runtimes: Runtimes) -> None:
    started: list[int] = []
    runtime = runtimes.of(_hanging(started))
    runtime.start()
    with pytest.raises(MaxRuntimeError) as caught:
        await runtime.send_message(Ask(text="hang"), AgentId("hanging", "a"))
    assert caught.value.seconds == 0.05
    with pytest.raises(TimeoutError, match="not the limit's"):
        await runtime.send_message(Ask(text="own timeout"), AgentId("hanging", "a"))
    assert await runtime.send_message(Ask(), AgentId("hanging", "a")) == Answer(text="in time")
    assert started == [1, 1, 1]


# Effects that are made once


class Bank:
    """Something outside."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.fail = 0

    async def pay(self, whom: str, amount: int = 1) -> Answer:
        await asyncio.sleep(0)
        if self.fail:
            self.fail -= 1
            raise ConnectionResetError("the bank did not answer")
        self.paid.append(whom)
        return Answer(text=f"{whom} got {amount}, number {len(self.paid)}")


async def _work(runtime: RedisAgentRuntime, *texts: str) -> None:
    for text in texts:
        await runtime.publish_message(Note(text=text), TopicId("work", "a"))
    await runtime.stop_when_idle()


async def test_once_per_message_across_attempts(runtimes: Runtimes) -> None:
    bank = Bank()
    results: list[Answer] = []

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        results.append(await ctx.once("pay", bank.pay, message.text, amount=5))
        results.append(await ctx.once("pay again", bank.pay, "bob"))
        if ctx.attempt < 3:
            raise RuntimeError("after the effect")

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "work")
    await _work(runtime, "ann")
    assert bank.paid == ["ann", "bob"]
    assert results == [Answer(text="ann got 5, number 1"), Answer(text="bob got 1, number 2")] * 3
    assert await stored(runtime, "once:") == []


async def test_a_server_that_is_away_at_the_record_has_no_effect_made_again(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = Bank()
    attempts: list[int] = []

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        attempts.append(ctx.attempt)
        await ctx.once("pay", bank.pay, message.text)

    runtime = await runtimes.started(settings={"max_attempts": 1})
    await closure(runtime, "worker", work, "work")
    link, away = runtime.transport.admin, {"recall": 2, "record": 2}
    run = link.run

    async def broken(name: str, *arguments: Any, **options: Any) -> Any:
        if away.get(name):
            away[name] -= 1
            raise ConnectionLostError("redis://127.0.0.1", "it was killed")
        return await run(name, *arguments, **options)

    monkeypatch.setattr(link, "run", broken)
    await _work(runtime, "ann")
    assert (attempts, bank.paid, await letters(runtime, "worker")) == ([1], ["ann"], [])
    assert away == {"recall": 0, "record": 0}


async def test_another_message_is_another_effect(runtimes: Runtimes) -> None:
    bank = Bank()

    async def work(agent: ClosureContext, message: Note | Ask, ctx: MessageContext) -> Answer:
        return await ctx.once("pay", bank.pay, message.text)

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "work")
    first = await runtime.send_message(Ask(text="x"), AgentId("worker", "a"))
    second = await runtime.send_message(Ask(text="x"), AgentId("worker", "a"))
    assert (first, second) == (Answer(text="x got 1, number 1"), Answer(text="x got 1, number 2"))
    await _work(runtime, "x", "x")
    assert len(bank.paid) == 4
    assert await stored(runtime, "once:") == []


async def test_two_types_that_get_one_message_have_an_effect_each(runtimes: Runtimes) -> None:
    bank = Bank()

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        await ctx.once("pay", bank.pay, agent.id.type)
        if ctx.attempt == 1:
            raise RuntimeError("again")

    runtime = await runtimes.started()
    for name in ("one", "two"):
        await closure(runtime, name, work, "work")
    await _work(runtime, "x")
    assert sorted(bank.paid) == ["one", "two"]


async def test_the_same_effect_asked_many_times_at_once_is_made_once(runtimes: Runtimes) -> None:
    bank = Bank()
    results: list[list[Answer]] = []

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        results.append(await asyncio.gather(*(ctx.once("pay", bank.pay, "ann") for _ in range(5))))
        others = [ctx.once(f"pay {name}", bank.pay, name) for name in "xyz"]
        await asyncio.gather(*others)
        if ctx.attempt == 1:
            raise RuntimeError("again")

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "work")
    await _work(runtime, "x")
    assert sorted(bank.paid) == ["ann", "x", "y", "z"]
    assert results == [[Answer(text="ann got 1, number 1")] * 5] * 2


async def test_a_failed_effect_is_made_again(runtimes: Runtimes) -> None:
    bank = Bank()
    bank.fail = 2

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        await ctx.once("pay", bank.pay, message.text)

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "work")
    await _work(runtime, "ann")
    assert bank.paid == ["ann"]
    assert await letters(runtime, "worker") == []


async def test_a_failed_effect_may_be_made_again_in_the_same_attempt(runtimes: Runtimes) -> None:
    bank = Bank()
    bank.fail = 1

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        with pytest.raises(ConnectionResetError):
            await ctx.once("pay", bank.pay, message.text)
        await ctx.once("pay", bank.pay, message.text)

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "work")
    await _work(runtime, "ann")
    assert bank.paid == ["ann"]


async def test_a_request_that_fails_leaves_no_record(runtimes: Runtimes) -> None:
    bank = Bank()

    async def work(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        await ctx.once("pay", bank.pay, message.text)
        raise LookupError("after the effect")

    runtime = await runtimes.started()
    await closure(runtime, "worker", work)
    with pytest.raises(LookupError):
        await runtime.send_message(Ask(text="ann"), AgentId("worker", "a"))
    await runtime.stop_when_idle()
    assert bank.paid == ["ann"]
    assert await stored(runtime, "once:") == []


async def test_any_value_that_can_be_sent_can_be_recorded(runtimes: Runtimes) -> None:
    values: list[Any] = [None, 1, "text", b"bytes", [1, {"a": None}], 1.5, True, Answer(text="x")]
    seen: list[list[Any]] = []

    async def give(value: Any) -> Any:
        return value

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        seen.append([await ctx.once(str(number), give, value) for number, value in enumerate(values)])
        if ctx.attempt == 1:
            raise RuntimeError("again")

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "work")
    await _work(runtime, "x")
    assert seen == [values, values]


async def test_an_effect_survives_the_process_that_made_it(runtimes: Runtimes) -> None:
    bank = Bank()
    made, results = asyncio.Event(), []

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        results.append(await ctx.once("pay", bank.pay, message.text))
        if not made.is_set():
            made.set()
            await asyncio.Event().wait()

    first, second = await runtimes.started(), runtimes.new()
    for runtime in (first, second):
        await closure(runtime, "worker", work, "work")
    await first.publish_message(Note(text="ann"), TopicId("work", "a"))
    await made.wait()
    await first.drain(0.0)
    second.start()
    await second.stop_when_idle()
    assert bank.paid == ["ann"]
    assert results == [Answer(text="ann got 1, number 1")] * 2


@pytest.mark.parametrize("own", [False, True])
async def test_an_app_or_an_agent_type_says_how_often_to_try(runtimes: Runtimes, own: bool) -> None:
    attempts: list[int] = []

    async def fail(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        attempts.append(ctx.attempt)
        raise LookupError("no")

    app = App("tries", retry=RetryPolicy(max_attempts=7 if own else 2, base=0.01))
    policy = RetryPolicy(max_attempts=2, base=0.01) if own else None
    app.closure("failing", topics=["news"], retry=policy)(fail)
    runtime = runtimes.of(app)
    runtime.start()
    await runtime.publish_message(Note(), TopicId("news", "a"))
    await runtime.stop_when_idle()
    assert attempts == [1, 2]
    assert len(await letters(runtime, "failing")) == 1


async def test_a_suspect_is_tried_alone_on_a_system_that_never_rests(runtimes: Runtimes) -> None:
    """Every handler leaves a message behind, and others wait behind each agent: no worker is ever empty by itself."""
    running, begun, is_tried = 0, 0, asyncio.Event()
    tried: list[tuple[int, int]] = []

    async def on_note(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        nonlocal running, begun
        if message.text == "suspect":
            tried.append((ctx.attempt, running))
            is_tried.set()
            return
        running, begun = running + 1, begun + 1
        await asyncio.sleep(0.001)
        running -= 1
        if not is_tried.is_set():
            await agent.publish_message(Note(), TopicId("work", agent.id.key))

    runtime = runtimes.new()
    await closure(runtime, "busy", on_note, "work")
    await runtime.open()
    await runtime.publish_message(Note(text="suspect"), TopicId("work", "suspect"))
    lane = runtime.transport.lane()
    await lane.join(["busy"])
    assert (await lane.turn((), Pull([ConsumedType("busy")], 1, 0, True, True))).deliveries
    runtime.start()
    for number in range(100):
        await runtime.publish_message(Note(), TopicId("work", f"hot{number % 5}"))
    await eventually(lambda: begun > 10)
    await lane.leave(crashed=True)
    lane.close()
    await asyncio.wait_for(is_tried.wait(), 20)
    await runtime.stop_when_idle()
    assert tried == [(2, 0)]
