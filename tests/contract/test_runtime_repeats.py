"""Requests that are repeated, and requests that are cancelled."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from callboard import AgentId, CancellationToken, ClosureContext, MessageContext, RedisAgentRuntime, TopicId
from callboard.broker.errors import RequestTimeoutError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure, letters, stored


async def _answer(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
    return Answer(text=message.text)


async def test_a_handler_that_runs_again_gets_the_recorded_replies(runtimes: Runtimes) -> None:
    counted: list[str] = []
    answers: list[list[str]] = []

    async def count(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        counted.append(message.text)
        return Answer(text=f"{message.text} {len(counted)}")

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        calls = [agent.send_message(Ask(text=text), AgentId("counter", text)) for text in ("x", "y", "z")]
        if ctx.attempt == 2:
            calls.reverse()
        got: list[Answer] = await asyncio.gather(*calls)
        answers.append(sorted(one.text for one in got))
        if ctx.attempt < 3:
            raise RuntimeError("again")

    runtime = await runtimes.started()
    await closure(runtime, "counter", count)
    await closure(runtime, "worker", work, "work")
    await runtime.publish_message(Note(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert sorted(counted) == ["x", "y", "z"]
    assert len(answers) == 3
    assert answers[0] == answers[1] == answers[2]
    assert await stored(runtime, "call:", "once:") == []


async def test_the_same_request_twice_in_one_handler_is_two_requests(runtimes: Runtimes) -> None:
    counted: list[str] = []

    async def count(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        counted.append(ctx.message_id)
        return Answer(text=str(len(counted)))

    async def work(agent: ClosureContext, message: Ask, ctx: MessageContext) -> list[Any]:
        return [(await agent.send_message(Ask(), AgentId("counter", "a"))).text for _ in range(3)]

    runtime = await runtimes.started()
    await closure(runtime, "counter", count)
    await closure(runtime, "worker", work)
    assert await runtime.send_message(Ask(), AgentId("worker", "a")) == ["1", "2", "3"]
    assert len(set(counted)) == 3


async def test_a_recorded_error_comes_again_too(runtimes: Runtimes) -> None:
    counted: list[str] = []

    async def fail(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        counted.append(message.text)
        raise ValueError(f"failure {len(counted)}")

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        with pytest.raises(ValueError, match="failure 1"):
            await agent.send_message(Ask(), AgentId("failing", "a"))
        if ctx.attempt == 1:
            raise RuntimeError("again")

    runtime = await runtimes.started()
    await closure(runtime, "failing", fail)
    await closure(runtime, "worker", work, "work")
    await runtime.publish_message(Note(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert counted == [""]
    assert await letters(runtime, "worker") == []


async def test_a_request_with_an_id_of_its_own_is_carried_out_once(runtimes: Runtimes) -> None:
    counted: list[str] = []

    async def count(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        counted.append(message.text)
        return Answer(text=str(len(counted)))

    runtime, other = await runtimes.started(), runtimes.new()
    await closure(runtime, "counter", count)
    other.add_message_types([Answer])
    first = await runtime.send_message(Ask(), AgentId("counter", "a"), message_id="order-1")
    again = await runtime.send_message(Ask(), AgentId("counter", "a"), message_id="order-1")
    elsewhere = await other.send_message(Ask(), AgentId("counter", "a"), message_id="order-1")
    assert first == again == elsewhere == Answer(text="1")
    assert counted == [""]


async def test_one_id_asked_several_times_at_once_answers_all(runtimes: Runtimes) -> None:
    counted: list[str] = []
    go_on = asyncio.Event()

    async def count(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        counted.append(message.text)
        await go_on.wait()
        return Answer(text=str(len(counted)))

    runtime = await runtimes.started()
    await closure(runtime, "counter", count)
    agent_id = AgentId("counter", "a")
    calls = [
        asyncio.create_task(runtime.send_message(Ask(), agent_id, message_id="order-1", timeout=5))
        for _ in range(3)
    ]
    short = asyncio.create_task(runtime.send_message(Ask(), agent_id, message_id="order-1", timeout=0.05))
    await eventually(lambda: counted)
    with pytest.raises(RequestTimeoutError):
        await short
    go_on.set()
    assert await asyncio.gather(*calls) == [Answer(text="1")] * 3
    assert counted == [""]
    await runtime.stop_when_idle()


def _waits_for_a_reply(runtime: RedisAgentRuntime) -> bool:
    """Its request is in the server."""
    return bool(runtime.transport.in_flight) and not runtime.transport.publisher.in_flight


async def test_one_id_asked_by_several_processes_at_once_answers_all(runtimes: Runtimes) -> None:
    counted: list[str] = []
    go_on = asyncio.Event()

    async def count(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        counted.append(message.text)
        await go_on.wait()
        return Answer(text=str(len(counted)))

    runtime, *others = await runtimes.started(), runtimes.new(), runtimes.new()
    await closure(runtime, "counter", count)
    calls = []
    for one in (runtime, *others, runtime):
        await one.open()
        one.add_message_types([Answer])
        calls.append(
            asyncio.create_task(one.send_message(Ask(), AgentId("counter", "a"), message_id="order-1"))
        )
        await eventually(partial(_waits_for_a_reply, one))
    await eventually(lambda: counted)
    go_on.set()
    assert await asyncio.gather(*calls) == [Answer(text="1")] * 4
    assert counted == [""]


# Cancelling


async def test_a_token_that_was_cancelled_before_keeps_a_message_from_leaving(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    await closure(runtime, "clerk", _answer, "news")
    token = CancellationToken()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await runtime.send_message(Ask(), AgentId("clerk", "a"), cancellation_token=token)
    with pytest.raises(asyncio.CancelledError):
        await runtime.publish_message(Ask(), TopicId("news", "a"), cancellation_token=token)
    await runtime.stop_when_idle()
    assert runtime.handled == 0


async def test_a_caller_that_cancels_is_free_and_the_handler_hears_of_it(runtimes: Runtimes) -> None:
    started, told = asyncio.Event(), asyncio.Event()

    async def slow(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        ctx.cancellation_token.add_callback(told.set)
        started.set()
        await told.wait()
        raise ValueError("E3: an error after the caller has gone")

    runtime = await runtimes.started()
    await closure(runtime, "slow", slow)
    token = CancellationToken()
    call = asyncio.create_task(runtime.send_message(Ask(), AgentId("slow", "a"), cancellation_token=token))
    await started.wait()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(told.wait(), 5)
    await runtime.stop_when_idle()


async def test_cancelling_reaches_nested_requests_and_nothing_is_committed(runtimes: Runtimes) -> None:
    started, released = asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    async def outer(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        await agent.publish_message(Note(text="never"), TopicId("news", "a"))
        answer: Answer = await agent.send_message(
            message, AgentId("inner", "a"), cancellation_token=ctx.cancellation_token
        )
        return answer

    async def inner(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        started.set()
        await released.wait()
        return Answer()

    async def hear(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        seen.append(message.text)

    runtime = await runtimes.started()
    await closure(runtime, "outer", outer)
    await closure(runtime, "inner", inner)
    await closure(runtime, "hearer", hear, "news")
    token = CancellationToken()
    call = asyncio.create_task(runtime.send_message(Ask(), AgentId("outer", "a"), cancellation_token=token))
    await started.wait()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    released.set()
    await runtime.stop_when_idle()
    assert seen == []


async def test_a_request_that_was_cancelled_while_it_waited_is_not_begun(runtimes: Runtimes) -> None:
    started: list[str] = []
    go_on = asyncio.Event()

    async def slow(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        started.append(message.text)
        await go_on.wait()
        return Answer()

    runtime = await runtimes.started()
    await closure(runtime, "slow", slow)
    token = CancellationToken()
    first = asyncio.create_task(runtime.send_message(Ask(text="first"), AgentId("slow", "a")))
    await eventually(lambda: started)
    second = asyncio.create_task(
        runtime.send_message(Ask(text="second"), AgentId("slow", "a"), cancellation_token=token)
    )
    await eventually(lambda: runtime.transport.in_flight == 2)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    go_on.set()
    await first
    await runtime.stop_when_idle()
    assert started == ["first"]


async def test_cancelling_the_task_that_waits_for_a_response(runtimes: Runtimes) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        started.set()
        await go_on.wait()
        raise ValueError("nobody hears this")

    runtime = await runtimes.started()
    await closure(runtime, "slow", slow)
    call = asyncio.create_task(runtime.send_message(Ask(), AgentId("slow", "a")))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    go_on.set()
    await eventually(lambda: runtime.transport.requests.late == 1)
    await runtime.stop_when_idle()
