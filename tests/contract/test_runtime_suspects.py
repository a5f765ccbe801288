"""Suspects that ask other agents: what they wait for may have to be handled by the very worker that tries them alone."""

from __future__ import annotations

import asyncio

import pytest

from callboard import AgentId, App, ClosureContext, MessageContext, RedisAgentRuntime, TopicId
from callboard.broker.errors import RequestTimeoutError
from callboard.broker.mailbox import ConsumedType, Pull
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, letters

KEYS = ("a", "b", "c")


async def _make_suspects(runtime: RedisAgentRuntime, *types: str) -> None:
    """Two workers hold everything that these types wait for, and die."""
    for _ in range(2):
        lane = runtime.transport.lane()
        await lane.join(types)
        taken = await lane.turn((), Pull([ConsumedType(each) for each in types], 9, 0, True, 0))
        assert len(taken.deliveries) == len(types) * len(KEYS)
        await lane.leave(crashed=True)
        lane.close()


@pytest.mark.parametrize("suspects", [("asker",), ("asker", "clerk")])
async def test_suspects_that_ask_are_answered_by_the_worker_that_tries_them(
    runtimes: Runtimes, suspects: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the agent that is asked has a suspect before the request, and asks others itself."""
    monkeypatch.setattr("callboard.broker.intake.patience", lambda suspicion: 3600.0)
    app, done = App("suspects"), list[str]()

    @app.closure("asker", topics=["work"])
    async def ask(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        await agent.send_message(Ask(), AgentId("clerk", agent.id.key), timeout=10)
        done.append(f"asker {ctx.attempt}")

    @app.closure("clerk", topics=["work"] if "clerk" in suspects else [])
    async def answer(agent: ClosureContext, message: Note | Ask, ctx: MessageContext) -> Answer | None:
        await agent.send_message(Ask(), AgentId("last", agent.id.key), timeout=10)
        return Answer() if isinstance(message, Ask) else None

    @app.closure("last")
    async def end(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        return Answer()

    runtime = runtimes.of(app)
    await runtime.open()
    for key in KEYS:
        await runtime.publish_message(Note(), TopicId("work", key))
    await _make_suspects(runtime, *suspects)
    runtime.start()
    await eventually(lambda: len(done) == len(KEYS))
    assert done == ["asker 1"] * len(KEYS)
    await runtime.stop_when_idle()


async def test_what_was_asked_too_late_is_asked_anew_in_the_next_attempt(runtimes: Runtimes) -> None:
    """The request of the attempt before expires behind what keeps the agent; it is no answer to this attempt."""
    app, asked, is_over = App("late"), list[str](), asyncio.Event()

    @app.closure("asker", topics=["work"])
    async def ask(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        try:
            await agent.send_message(Ask(), AgentId("clerk", "a"), timeout=0.1 if ctx.attempt == 1 else 10)
        except RequestTimeoutError:
            is_over.set()
            raise
        asked.append(f"answered {ctx.attempt}")

    @app.closure("clerk", topics=["before"])
    async def answer(agent: ClosureContext, message: Note | Ask, ctx: MessageContext) -> Answer | None:
        if isinstance(message, Note):
            asked.append("begun")
            await is_over.wait()
            return None
        asked.append("asked")
        return Answer()

    runtime = runtimes.of(app)
    runtime.start()
    await runtime.publish_message(Note(), TopicId("before", "a"))
    await eventually(lambda: asked == ["begun"])
    await runtime.publish_message(Note(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert asked == ["begun", "asked", "answered 2"]
    assert await letters(runtime, "asker") == []
