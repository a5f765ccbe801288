"""Handlers that ask a person and wait for the answer without a process."""

from __future__ import annotations

import asyncio

import pytest

from callboard import (
    AgentId,
    ClosureContext,
    InputAnsweredError,
    InputRequest,
    InputRequestUnknownError,
    MessageContext,
    RedisAgentRuntime,
    TopicId,
)
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes, closure


async def open_questions(runtime: RedisAgentRuntime, count: int = 1) -> list[InputRequest]:
    """The questions that are open, once there are so many, and their handlers have ended."""
    found: list[InputRequest] = []

    async def are_there() -> bool:
        found[:] = await runtime.inputs.list()
        return len(found) == count

    await eventually(are_there)
    await runtime.stop_when_idle()
    return found


async def test_a_handler_asks_and_goes_on_with_the_answer(runtimes: Runtimes) -> None:
    heard: list[str] = []
    steps: list[str] = []

    async def step() -> str:
        steps.append("step")
        return "done"

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        if message.text == "first":
            await ctx.once("step", step)
            heard.append(f"{await ctx.ask('Really?')} in attempt {ctx.attempt}")
        else:
            heard.append(message.text)

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "work")
    for text in ("first", "second"):
        await runtime.publish_message(Note(text=text), TopicId("work", "a"))
    (request,) = await open_questions(runtime)
    assert (request.question, request.agent, request.run_id) == ("Really?", AgentId("worker", "a"), None)
    assert heard == []
    runtime.start()
    await runtime.inputs.answer(request.id, "yes", by="ada")
    await eventually(lambda: len(heard) == 2)
    assert (heard, steps) == (["yes in attempt 1", "second"], ["step"])
    await runtime.stop_when_idle()
    with pytest.raises(InputAnsweredError, match="before by ada"):
        await runtime.inputs.answer(request.id, "no")
    with pytest.raises(InputRequestUnknownError):
        await runtime.inputs.answer("nothing", "no")
    assert await runtime.inputs.list() == []


async def test_questions_that_are_asked_at_once_are_all_there_and_answered_in_any_order(
    runtimes: Runtimes,
) -> None:
    answers: list[tuple[str, str]] = []

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        left, right = await asyncio.gather(ctx.ask("Left?"), ctx.ask("Right?"))
        answers.append((left, right))

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "work")
    await runtime.publish_message(Note(), TopicId("work", "a"))
    left, right = await open_questions(runtime, 2)
    assert [left.question, right.question] == ["Left?", "Right?"]
    runtime.start()
    await runtime.inputs.answer(right.id, "r")
    assert await open_questions(runtime) == [left]
    runtime.start()
    await runtime.inputs.answer(left.id, "l")
    await eventually(lambda: bool(answers))
    assert answers == [("l", "r")]
