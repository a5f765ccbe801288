"""Agents of patterns for tests: models that call what they are told to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from callboard.ag2 import Pattern, a_initiate_group_chat
from callboard.groupchat import ChatResult, ConversableAgent
from callboard.memory.llm_messages import FunctionCall, LLMMessage
from callboard.models import ReplayChatCompletionClient


def call(name: str, /, **arguments: Any) -> list[FunctionCall]:
    """What a model answers that calls a function."""
    return [FunctionCall(id="1", name=name, arguments=json.dumps(arguments))]


def a_model(*answers: Any) -> ReplayChatCompletionClient:
    """A model with these answers; a text is said, and calls are made."""
    return ReplayChatCompletionClient(list(answers))


def an_agent(name: str, *answers: Any, **options: Any) -> ConversableAgent:
    """An agent whose model has these answers; without any it says its name."""
    model = {"llm_config": a_model(*answers)} if answers else {"default_auto_reply": name}
    return ConversableAgent(name, human_input_mode="NEVER", silent=True, **{**model, **options})


async def chatted(
    pattern: Pattern, messages: Any = "hi", max_rounds: int = 8
) -> tuple[ChatResult, list[str]]:
    """What came of a chat, and who spoke."""
    result, _, _ = await a_initiate_group_chat(pattern, messages, max_rounds, silent=True)
    return result, [message.get("name", "_User") for message in result.chat_history]


def read_by(agent: ConversableAgent) -> list[Sequence[LLMMessage]]:
    """What the agent's model has read, at each of its calls."""
    client = agent.client
    assert isinstance(client, ReplayChatCompletionClient)
    return [one["messages"] for one in client.create_calls]


def offered_to(agent: ConversableAgent) -> list[dict[str, str]]:
    """The tools that the agent's model was offered, and what it was told of them, at each of its calls."""
    client = agent.client
    assert isinstance(client, ReplayChatCompletionClient)
    return [
        {tool["name"]: tool["description"] for tool in map(_schema, made["tools"])}
        for made in client.create_calls
    ]


def _schema(tool: Any) -> Any:
    return tool if isinstance(tool, dict) else tool.schema
