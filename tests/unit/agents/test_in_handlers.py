"""Agents in handlers that are run again: nobody is asked twice, and nothing is paid or done twice."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from callboard import CancellationToken, ClosureContext, MessageContext, TopicId
from callboard.agents import (
    AgentTool,
    ApprovalRequest,
    ApprovalResponse,
    CodeExecutorAgent,
    SocietyOfMindAgent,
    UserProxyAgent,
)
from callboard.code import CodeResult
from callboard.models import ReplayChatCompletionClient
from callboard.teams import RoundRobinGroupChat
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes, closure

from .talkers import Talker
from .test_code_executor import HELLO, Executor

ATTEMPTS = 2


@pytest.fixture
async def runtimes() -> AsyncIterator[Runtimes]:
    made = Runtimes(f"memory://agents-{os.urandom(4).hex()}")
    yield made
    await made.close()


async def twice(runtimes: Runtimes, work: Callable[[], Awaitable[str]]) -> list[str]:
    """What came of some work in each attempt at a message, of which the first fails when the work is done."""
    seen: list[str] = []

    async def on_note(_: ClosureContext, message: Note, ctx: MessageContext) -> None:
        seen.append(await work())
        if ctx.attempt < ATTEMPTS:
            raise RuntimeError("after the work")

    runtime = runtimes.new()
    await closure(runtime, "worker", on_note, "notes")
    runtime.start()
    await runtime.publish_message(Note(), TopicId("notes", "a"))
    await eventually(lambda: len(seen) == ATTEMPTS)
    await runtime.stop_when_idle()
    return seen


def last(agent: Any) -> Callable[[], Awaitable[str]]:
    async def work() -> str:
        result = await agent.for_conversation().run(task="Go")
        return str(result.messages[-1].to_text())

    return work


async def test_a_person_is_asked_once(runtimes: Runtimes) -> None:
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return f"answer {len(asked)}"

    assert await twice(runtimes, last(UserProxyAgent("human", input_func=ask))) == ["answer 1", "answer 1"]
    assert len(asked) == 1


async def test_code_is_approved_and_run_once(runtimes: Runtimes) -> None:
    asked: list[str] = []

    async def approve(request: ApprovalRequest) -> ApprovalResponse:
        asked.append(request.code)
        return ApprovalResponse(approved=True, reason="")

    executor = Executor(CodeResult(0, "first"), CodeResult(0, "second"))
    model = ReplayChatCompletionClient([HELLO, "Done."])
    agent = CodeExecutorAgent("coder", executor, model_client=model, approval_func=approve)

    assert await twice(runtimes, last(agent)) == ["Done.", "Done."]
    assert len(asked) == len(executor.ran) == 1
    assert len(model.create_calls) == 2


async def test_code_that_was_refused_is_refused_again_without_a_question(runtimes: Runtimes) -> None:
    asked: list[str] = []

    def refuse(request: ApprovalRequest) -> ApprovalResponse:
        asked.append(request.code)
        return ApprovalResponse(approved=False, reason="no")

    model = ReplayChatCompletionClient([HELLO, "Refused."])
    agent = CodeExecutorAgent("coder", Executor(), model_client=model, approval_func=refuse)

    assert await twice(runtimes, last(agent)) == ["Refused.", "Refused."]
    assert len(asked) == 1


async def test_the_answer_for_a_team_is_paid_once(runtimes: Runtimes) -> None:
    model = ReplayChatCompletionClient(["The answer."])
    agent = SocietyOfMindAgent("society", RoundRobinGroupChat([Talker("a")], max_turns=1), model)

    assert await twice(runtimes, last(agent)) == ["The answer.", "The answer."]
    assert len(model.create_calls) == 1


async def test_every_call_of_an_agent_as_a_tool_is_a_conversation_of_its_own(runtimes: Runtimes) -> None:
    talker = Talker("writer")
    tool = AgentTool(talker)

    async def work() -> str:
        result = await tool.run_json({"task": "Go"}, CancellationToken())
        return tool.return_value_as_string(result)

    assert await twice(runtimes, work) == ["writer: said 1", "writer: said 1"]
    assert talker.count == 0
