"""Handoffs that were created in handlers: they are there in every attempt, in the next turn and in the next process."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence

import pytest

from callboard import ClosureContext, MessageContext, TopicId
from callboard.agents import AssistantAgent, TaskResult
from callboard.conditions import TextMentionTermination
from callboard.dispatch import DynamicDispatcher, DynamicDispatcherAgent
from callboard.memory.llm_messages import AssistantMessage, FunctionCall, LLMMessage
from callboard.messages import HandoffChangeEvent, HandoffMessage
from callboard.models import ReplayChatCompletionClient
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import Swarm
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes, closure

ATTEMPTS = 2
CREATE = FunctionCall(
    id="1",
    name="create_handoff",
    arguments=json.dumps(
        {"name": "ask", "target": "bob", "description": "When needed.", "message": "Two prices, please."}
    ),
)
ASK = FunctionCall(id="2", name="ask", arguments="{}")


@pytest.fixture
async def runtimes() -> AsyncIterator[Runtimes]:
    made = Runtimes(f"memory://dispatch-{os.urandom(4).hex()}")
    yield made
    await made.close()


async def test_an_attempt_that_comes_again_creates_the_handoff_again_and_asks_nobody_twice(
    runtimes: Runtimes,
) -> None:
    model = ReplayChatCompletionClient([[CREATE], [ASK]])
    agent = DynamicDispatcherAgent("ada", model, dispatcher=DynamicDispatcher(["bob"]))
    seen: list[TaskResult] = []

    async def on_note(_: ClosureContext, message: Note, ctx: MessageContext) -> None:
        seen.append(await agent.for_conversation().run(task="go"))
        if ctx.attempt < ATTEMPTS:
            raise RuntimeError("after the work")

    runtime = runtimes.new()
    await closure(runtime, "worker", on_note, "notes")
    runtime.start()
    await runtime.publish_message(Note(), TopicId("notes", "a"))
    await eventually(lambda: len(seen) == ATTEMPTS)
    await runtime.stop_when_idle()

    said = [[one.to_text() for one in result.messages] for result in seen]
    assert said[0] == said[1]
    last = seen[1].messages[-1]
    assert isinstance(last, HandoffMessage)
    assert last.content == "Two prices, please."
    assert len(model.create_calls) == 2


def script(messages: Sequence[LLMMessage]) -> str | list[FunctionCall]:
    """Creates a handoff in the first turn, and uses it in the second."""
    answers = [one for one in messages if isinstance(one, AssistantMessage)]
    script: list[str | list[FunctionCall]] = [[CREATE], "Later. BREAK", [ASK]]
    return script[len(answers)]


def a_team(runtime: RedisAgentRuntime) -> Swarm:
    ada = DynamicDispatcherAgent(
        "ada", ReplayChatCompletionClient(default=script), dispatcher=DynamicDispatcher(["bob"])
    )
    bob = AssistantAgent("bob", ReplayChatCompletionClient(default="Cheap. BREAK"))
    condition = TextMentionTermination("BREAK")
    return Swarm([ada, bob], name="shop", termination_condition=condition, runtime=runtime)


async def test_a_handoff_is_there_in_the_next_turn_in_another_process(runtimes: Runtimes) -> None:
    said: list[str] = []
    changes: list[str] = []
    for task in ("go", "go on"):
        runtime = runtimes.new()
        runtime.start()
        result = await a_team(runtime).run(task=task)  # other objects, which remember nothing
        said += [one.to_text() for one in result.messages if isinstance(one, HandoffMessage)]
        changes += [one.change for one in result.messages if isinstance(one, HandoffChangeEvent)]
        assert result.messages[-1].to_text().endswith("BREAK")
        await runtime.stop_when_idle()
    assert said == ["Two prices, please."]
    assert changes == ["created", "used"]
