"""What an assistant remembers: saved, loaded, kept elsewhere, and copied for another conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import Log
from callboard.agents import AssistantAgent
from callboard.core.cancellation import CancellationToken
from callboard.memory.contexts import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    HeadAndTailChatCompletionContext,
    SummarisingChatCompletionContext,
    TokenLimitedChatCompletionContext,
    UnboundedChatCompletionContext,
)
from callboard.memory.llm_messages import LLMMessage, UserMessage
from callboard.models import ReplayChatCompletionClient
from callboard.models.errors import ModelConnectionError

from .talking import assistant, brief, calls, remembered

MODEL = ReplayChatCompletionClient(default="fine")

AUTOGENS = """{"type": "AssistantAgentState", "version": "1.0.0", "llm_context": {"messages": [
  {"content": "go", "source": "user", "type": "UserMessage"},
  {"content": [{"id": "1", "arguments": "{}", "name": "one"}], "thought": null, "source": "ada",
   "type": "AssistantMessage"},
  {"content": [{"content": "1", "name": "one", "call_id": "1", "is_error": false}],
   "type": "FunctionExecutionResultMessage"},
  {"content": "done", "thought": null, "source": "ada", "type": "AssistantMessage"}]}}"""


def one() -> str:
    """Returns one."""
    return "1"


async def test_the_state_is_that_of_autogen() -> None:
    agent, _ = assistant(calls("one"), "done", tools=[one], max_tool_iterations=2)
    await agent.run(task="go")
    assert json.loads(json.dumps(await agent.save_state())) == json.loads(AUTOGENS)


async def test_a_state_is_loaded() -> None:
    agent, _ = assistant()
    await agent.load_state(json.loads(AUTOGENS))
    assert await agent.save_state() == json.loads(AUTOGENS)
    again, _ = assistant()
    await again.load_state(await agent.save_state())
    assert await remembered(again) == await remembered(agent)


@pytest.mark.parametrize("state", [{"type": "TeamState"}, {"llm_context": {"messages": [{"type": "Other"}]}}])
async def test_something_else_is_refused(state: dict[str, Any]) -> None:
    agent, _ = assistant("one")
    await agent.run(task="go")
    with pytest.raises(ValueError, match="validation error"):
        await agent.load_state(state)
    assert len(await remembered(agent)) == 2


def contexts() -> list[ChatCompletionContext]:
    """One of each kind, with something in it."""
    first: list[LLMMessage] = [UserMessage(content="first", source="user")]
    return [
        UnboundedChatCompletionContext(first),
        BufferedChatCompletionContext(50, first),
        HeadAndTailChatCompletionContext(5, 5, first),
        TokenLimitedChatCompletionContext(MODEL, token_limit=1000, initial_messages=first),
        SummarisingChatCompletionContext(MODEL, initial_messages=first),
    ]


@pytest.mark.parametrize("context", contexts(), ids=lambda context: type(context).__name__)
async def test_a_context_is_kept_in_a_log(context: ChatCompletionContext) -> None:
    log: Log[LLMMessage] = Log()
    agent = AssistantAgent("ada", MODEL, model_context=context).for_conversation()
    agent.keep_context_in(log)
    await agent.run(task="go")
    expected = [("UserMessage", "first"), ("UserMessage", "go"), ("AssistantMessage", "fine")]
    assert brief(list(log)) == expected
    assert await agent.save_beside_context() is None
    await context.clear()

    other = AssistantAgent("ada", MODEL, model_context=context).for_conversation()
    other.keep_context_in(log)
    assert await remembered(other) == expected
    assert brief(list(log)) == expected


@pytest.mark.parametrize("context", contexts(), ids=lambda context: type(context).__name__)
async def test_conversations_are_apart_and_share_the_model(context: ChatCompletionContext) -> None:
    agent = AssistantAgent("ada", MODEL, model_context=context)
    other = agent.for_conversation()
    await other.run(task="go")
    assert await remembered(agent) == [("UserMessage", "first")]
    assert len(await remembered(other)) == 3


async def test_a_copy_may_be_made_in_the_middle_of_a_turn() -> None:
    agent, model = assistant("one", "two")
    items = agent.on_messages_stream([], CancellationToken())
    await anext(items)
    other = agent.for_conversation()
    await items.aclose()
    await other.run(task="go")
    assert len(model.create_calls) == 2
    assert len(await remembered(agent)) == 1


class Counting(UnboundedChatCompletionContext):
    """Saves more than its messages."""

    async def save_state(self) -> dict[str, Any]:
        return {**await super().save_state(), "count": 7}


async def test_a_context_that_saves_more_is_saved_as_a_whole() -> None:
    log: Log[LLMMessage] = Log()
    agent = AssistantAgent("ada", MODEL, model_context=Counting())
    agent.keep_context_in(log)
    await agent.run(task="go")
    assert len(log) == 0
    state = await agent.save_beside_context()
    assert state is not None
    assert state["llm_context"]["count"] == 7
    assert len(state["llm_context"]["messages"]) == 2


class Kept(BaseModel):
    thread: Log[LLMMessage] = Log()


async def test_a_turn_that_fails_is_taken_back_from_a_log() -> None:
    state = Kept()
    agent, _ = assistant("one", ModelConnectionError("m", "gone"))
    agent.keep_context_in(state.thread)
    await agent.run(task="go")
    state.thread.settle()
    with pytest.raises(ModelConnectionError):
        await agent.run(task="again")
    assert brief(list(state.thread)) == [("UserMessage", "go"), ("AssistantMessage", "one")]
    assert not state.thread.has_changed


class Watched(Log[LLMMessage]):
    """Counts how often it is walked through."""

    walks = 0

    def __iter__(self) -> Any:
        Watched.walks += 1
        return super().__iter__()


async def test_a_turn_with_a_window_does_not_walk_through_the_conversation() -> None:
    log = Watched([UserMessage(content=str(number), source="user") for number in range(2000)])
    log.settle()
    agent, _ = assistant("one", model_context=BufferedChatCompletionContext(5))
    agent.keep_context_in(log)
    await agent.run(task="go")
    assert Watched.walks == 0
    assert len(log) == 2002
