"""Starting, stopping, being idle, and what is left behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from callboard import AgentId, ClosureContext, MessageContext, TopicId
from callboard.broker.errors import ConnectionLostError
from callboard.errors import MisuseError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure, letters, listener


async def _echo(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
    return Answer(text=message.text)


async def test_start_and_stop_at_the_wrong_time(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    for call in (runtime.stop, runtime.stop_when_idle, lambda: runtime.stop_when(lambda: True)):
        with pytest.raises(MisuseError):
            await call()
    runtime.start()
    with pytest.raises(RuntimeError, match="already started"):
        runtime.start()
    await runtime.stop()
    with pytest.raises(RuntimeError):
        await runtime.stop()


async def test_it_may_be_started_again_and_again(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    heard = await listener(runtime, "listener", "news")
    for number in range(4):
        runtime.start()
        await runtime.publish_message(Note(text=str(number)), TopicId("news", "a"))
        await runtime.stop_when_idle()
        assert runtime.handled == 1
    assert [one.text for one in heard] == ["0", "1", "2", "3"]


async def test_idle_sees_what_was_published_just_before(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    heard = await listener(runtime, "listener", "news")
    for number in range(10):
        runtime.start()
        publishing = asyncio.create_task(
            runtime.publish_message(Note(text=str(number)), TopicId("news", "a"))
        )
        await asyncio.sleep(0)
        await runtime.stop_when_idle()
        assert len(heard) == number + 1
        await publishing


async def test_idle_that_is_waited_for_before_the_first_send(runtimes: Runtimes) -> None:
    """As AutoGen's teams do: the task that stops the runtime is there before the first message."""
    runtime = runtimes.new()
    await closure(runtime, "echo", _echo)
    runtime.start()
    stopping = asyncio.create_task(runtime.stop_when_idle())
    assert await runtime.send_message(Ask(text="x"), AgentId("echo", "a")) == Answer(text="x")
    await asyncio.wait_for(stopping, 5)


async def test_idle_waits_for_what_follows_and_for_retries(runtimes: Runtimes) -> None:
    seen: list[str] = []

    async def relay(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        left = int(message.text)
        if ctx.attempt == 1 and left % 3 == 0:
            raise RuntimeError("again")
        seen.append(message.text)
        if left:
            await asyncio.sleep(0.002)
            await agent.publish_message(Note(text=str(left - 1)), TopicId("relay", f"k{left % 3}"))

    runtime = await runtimes.started()
    await closure(runtime, "relay", relay, "relay")
    await runtime.publish_message(Note(text="12"), TopicId("relay", "a"))
    await runtime.stop_when_idle()
    assert seen == [str(number) for number in range(12, -1, -1)]


async def test_idle_waits_for_other_processes_of_the_namespace(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await runtimes.started(), await runtimes.started()
    go_on, started = asyncio.Event(), asyncio.Event()

    async def slow(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        started.set()
        await go_on.wait()

    await closure(second, "slow", slow, "work")
    await first.publish_message(Note(), TopicId("work", "a"))
    await started.wait()
    looks: list[object] = []
    look = first.transport.idle

    async def counted() -> Any:
        looks.append(None)
        return await look()

    monkeypatch.setattr(first.transport, "idle", counted)
    stopping = asyncio.create_task(first.stop_when_idle())
    await eventually(lambda: len(looks) > 5)
    assert not stopping.done()
    go_on.set()
    await asyncio.wait_for(stopping, 5)


async def test_a_message_for_later_does_not_keep_it_from_being_idle(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Note(), TopicId("news", "a"), delay=3600)
    await asyncio.wait_for(runtime.stop_when_idle(), 5)
    assert heard == []


async def test_idle_waits_for_siblings_of_what_failed(runtimes: Runtimes) -> None:
    """E6: one subscriber that fails hides nothing of the others."""
    finished: list[str] = []
    go_on = asyncio.Event()

    async def fail(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        if ctx.attempt == 3:
            go_on.set()
        raise RuntimeError("no")

    async def slow(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        await go_on.wait()
        await asyncio.sleep(0.01)
        finished.append(agent.id.type)

    runtime = await runtimes.started()
    await closure(runtime, "failing", fail, "work")
    for name in ("one", "two"):
        await closure(runtime, name, slow, "work")
    await runtime.publish_message(Note(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert sorted(finished) == ["one", "two"]


async def test_stop_lets_handlers_finish_and_keeps_the_queue(runtimes: Runtimes) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    async def slow(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        started.set()
        await go_on.wait()
        seen.append(f"{message.text} {ctx.attempt}")

    runtime = await runtimes.started()
    await closure(runtime, "slow", slow, "work")
    for text in ("1", "2", "3"):
        await runtime.publish_message(Note(text=text), TopicId("work", "a"))
    await started.wait()
    stopping = asyncio.create_task(runtime.stop())
    await asyncio.sleep(0)
    go_on.set()
    await stopping
    assert seen == ["1 1"]
    assert runtime.unprocessed_messages_count == 0
    runtime.start()
    await runtime.stop_when_idle()
    assert seen == ["1 1", "2 1", "3 1"]


async def test_a_handler_that_outlasts_the_grace_moves_on_without_an_attempt(runtimes: Runtimes) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()
    attempts: list[int] = []

    async def slow(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        attempts.append(ctx.attempt)
        started.set()
        await go_on.wait()

    first, second = await runtimes.started(), runtimes.new()
    for runtime in (first, second):
        await closure(runtime, "slow", slow, "work")
    await first.publish_message(Note(), TopicId("work", "a"))
    await started.wait()
    await first.drain(0.01)
    go_on.set()
    second.start()
    await second.stop_when_idle()
    assert attempts == [1, 1]
    assert second.handled == 1


async def test_a_request_whose_runtime_stops_is_answered_after_the_next_start(runtimes: Runtimes) -> None:
    """E4: stop() with a request in flight."""
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        started.set()
        await go_on.wait()
        return Answer(text=message.text)

    runtime = await runtimes.started()
    await closure(runtime, "slow", slow)
    calls = [
        asyncio.create_task(runtime.send_message(Ask(text=str(number)), AgentId("slow", "a")))
        for number in range(2)
    ]
    await started.wait()
    await eventually(lambda: runtime.transport.in_flight == 2)
    stopping = asyncio.create_task(runtime.stop())
    await asyncio.sleep(0)
    go_on.set()
    await stopping
    assert await calls[0] == Answer(text="0")
    runtime.start()
    assert await calls[1] == Answer(text="1")


async def test_a_request_whose_runtime_is_closed_ends(runtimes: Runtimes) -> None:
    runtime, elsewhere = await runtimes.started(), runtimes.new()
    await closure(elsewhere, "echo", _echo)
    await elsewhere.open()
    call = asyncio.create_task(runtime.send_message(Ask(), AgentId("echo", "a")))
    await eventually(lambda: runtime.transport.in_flight)
    await runtime.close()
    with pytest.raises(ConnectionLostError, match="closed"):
        await asyncio.wait_for(call, 5)


async def test_stop_when_a_condition_holds(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    heard = await listener(runtime, "listener", "news")
    for number in range(20):
        await runtime.publish_message(Note(text=str(number)), TopicId("news", "a"))
    runtime.start()
    await runtime.stop_when(lambda: len(heard) >= 3)
    assert len(heard) >= 3
    runtime.start()
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == [str(number) for number in range(20)]


# What failed for good


async def _fail(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
    raise LookupError(message.text)


async def test_an_error_is_raised_by_whoever_stops_if_asked_for(runtimes: Runtimes) -> None:
    runtime = runtimes.new(ignore_unhandled_exceptions=False)
    await closure(runtime, "failing", _fail, "work")
    for stop in (runtime.stop_when_idle, lambda: runtime.stop_when(lambda: False)):
        runtime.start()
        await runtime.publish_message(Note(text="lost"), TopicId("work", "a"))
        with pytest.raises(LookupError, match="lost"):
            await asyncio.wait_for(stop(), 5)
    runtime.start()
    await runtime.stop_when_idle()
    assert len(await letters(runtime, "failing")) == 2


async def test_stop_raises_it_too(runtimes: Runtimes) -> None:
    runtime = await runtimes.started(ignore_unhandled_exceptions=False)
    await closure(runtime, "failing", _fail, "work")
    await runtime.publish_message(Note(text="lost"), TopicId("work", "a"))
    await eventually(lambda: runtime.failed)
    with pytest.raises(LookupError):
        await runtime.stop()


async def test_an_error_of_a_request_belongs_to_who_asked(runtimes: Runtimes) -> None:
    async def fail(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        raise LookupError("no")

    runtime = await runtimes.started(ignore_unhandled_exceptions=False)
    await closure(runtime, "failing", fail)
    with pytest.raises(LookupError):
        await runtime.send_message(Ask(), AgentId("failing", "a"))
    await runtime.stop_when_idle()


async def test_by_default_an_error_is_a_dead_letter_and_nothing_is_raised(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    await closure(runtime, "failing", _fail, "work")
    heard = await listener(runtime, "listener", "work")
    await runtime.publish_message(Note(text="x"), TopicId("work", "a"))
    await runtime.stop_when_idle()
    (letter,) = await letters(runtime, "failing")
    assert (letter["reason"], letter["error"], letter["attempts"]) == ("failed", "LookupError: x", "3")
    assert "in _fail" in letter["traceback"]
    assert [one.text for one in heard] == ["x"]
    assert runtime.failed == 1
