"""Assistants as members of a team on the bus: each conversation has its own, whose context is a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from callboard.agents import AssistantAgent
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResultMessage, LLMMessage
from callboard.models import ReplayChatCompletionClient
from callboard.models.replay import Answer
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RoundRobinGroupChat
from tests.helpers.chat import texts
from tests.helpers.runtimes import Runtimes


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


def look() -> str:
    """Looks."""
    return "a cat"


def looks_first(messages: Sequence[LLMMessage]) -> Answer:
    """Looks in its first turn, and says how many messages it knows."""
    if len(messages) == 2:
        return [FunctionCall("1", "{}", "look")]
    last = messages[-1]
    seen = last.content[0].content if isinstance(last, FunctionExecutionResultMessage) else "nothing"
    return f"I see {seen} after {len(messages) - 1}"


def counts(messages: Sequence[LLMMessage]) -> Answer:
    return f"I know {len(messages) - 1}"


def a_team(runtime: RedisAgentRuntime, **options: Any) -> RoundRobinGroupChat:
    ada = AssistantAgent(
        "ada", ReplayChatCompletionClient(default=looks_first), tools=[look], max_tool_iterations=2
    )
    bob = AssistantAgent("bob", ReplayChatCompletionClient(default=counts), model_client_stream=True)
    return RoundRobinGroupChat([ada, bob], max_turns=2, runtime=runtime, **options)


async def test_each_remembers_what_it_heard_and_did(runtime: RedisAgentRuntime) -> None:
    team = a_team(runtime)
    first = texts(await team.run(task="go"))
    assert [first[0], *first[-2:]] == ["go", "I see a cat after 3", "I know 2"]
    second = texts(await team.run(task="again"))
    assert second == ["again", "I see nothing after 6", "I know 5"]


async def test_conversations_are_apart(runtime: RedisAgentRuntime) -> None:
    for conversation in ("one", "two"):
        team = a_team(runtime, name="team", conversation=conversation)
        assert texts(await team.run(task="go"))[-1] == "I know 2"


async def test_a_reset_forgets(runtime: RedisAgentRuntime) -> None:
    team = a_team(runtime)
    await team.run(task="go")
    await team.reset()
    assert texts(await team.run(task="go"))[-2:] == ["I see a cat after 3", "I know 2"]


async def test_a_state_goes_to_another_team(runtime: RedisAgentRuntime) -> None:
    team = a_team(runtime)
    await team.run(task="go")
    other = a_team(runtime, name="other")
    await other.load_state(await team.save_state())
    assert texts(await other.run(task="again")) == ["again", "I see nothing after 6", "I know 5"]
