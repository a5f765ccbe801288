"""What a server has read of a conversation, it finds again at the start of the next request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)
from callboard.models.base import ModelRequest
from callboard.models.info import ModelInfo
from callboard.models.openai.chat_request import ChatRequest
from callboard.models.openai.settings import OpenAISettings
from callboard.models.types import ModelFamily

TURNS = 12
TOOLS = [{"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}]
FAMILIES = sorted(
    value for name, value in vars(ModelFamily).items() if name.isupper() and isinstance(value, str)
)
MODES = [("native", True), ("lenient", True), ("lenient", False), ("schema", True)]


def request_of(settings: OpenAISettings, messages: list[LLMMessage], **options: Any) -> dict[str, Any]:
    return dict(ChatRequest.of(ModelRequest(messages, tools=TOOLS, **options), settings).arguments)


def turn(number: int) -> tuple[LLMMessage, LLMMessage, list[LLMMessage]]:
    """A question, what the memory says about it, and what comes of it."""
    call = FunctionCall(id=f"call_{number}", name="add", arguments=json.dumps({"a": number}))
    result = FunctionExecutionResult(content=str(number), name="add", call_id=call.id, is_error=False)
    return (
        UserMessage(content=f"question {number}", source="writer/ada"),
        SystemMessage(content=f"memory {number}"),
        [
            AssistantMessage(content=[call], source="bot"),
            FunctionExecutionResultMessage(content=[result]),
            AssistantMessage(content=f"answer {number} \n", source="bot"),
        ],
    )


def common(first: list[Any], second: list[Any]) -> int:
    """How many messages at the start are the same."""
    pairs = zip(first, second, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))


def settings_of(family: str, mode: Any, takes_tools: bool, several: bool) -> OpenAISettings:
    info = ModelInfo(
        vision=True,
        function_calling=takes_tools,
        json_output=True,
        family=family,
        structured_output=True,
        multiple_system_messages=several,
    )
    return OpenAISettings(model="m", info=info, tool_mode=mode)


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize(("mode", "takes_tools"), MODES)
@pytest.mark.parametrize("keeps_memories", [True, False])
def test_the_start_of_a_conversation_stays_as_it_is(
    mode: Any, takes_tools: bool, several: bool, keeps_memories: bool
) -> None:
    for family in FAMILIES:
        settings = settings_of(family, mode, takes_tools, several)
        history: list[LLMMessage] = [SystemMessage(content="Be kind."), SystemMessage(content="Be brief.")]
        before: list[Any] = []
        for number in range(TURNS):
            question, memory, rest = turn(number)
            asked = request_of(settings, [*history, question, memory])
            # Of the turn before nothing changes but the message with a memory that is gone.
            assert common(before, asked["messages"]) >= len(before) - (not keeps_memories), family
            # Within a turn nothing changes at all, whatever the model may call now.
            for choice in ("auto", "none", "required"):
                next_asked = request_of(settings, [*history, question, memory, *rest[:2]], tool_choice=choice)
                assert common(asked["messages"], next_asked["messages"]) == len(asked["messages"]), family
                assert next_asked.get("tools") == asked.get("tools")
            before = asked["messages"]
            history += [question, memory, *rest] if keeps_memories else [question, *rest]
