from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from callboard.broker import MessageRegistry
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    Image,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n")
MESSAGES: list[LLMMessage] = [
    SystemMessage(content="be kind"),
    UserMessage(content="hello", source="user"),
    UserMessage(content=["look", PICTURE, Image.from_url("https://example.org/a.png"), ""], source="user"),
    AssistantMessage(content="hi", source="writer"),
    AssistantMessage(
        content=[FunctionCall(id="1", arguments='{"a": 1}', name="f")], thought="hm", source="writer"
    ),
    FunctionExecutionResultMessage(
        content=[FunctionExecutionResult(content="2", name="f", call_id="1", is_error=False)]
    ),
]


class Conversation(BaseModel):
    messages: list[LLMMessage]


def name(message: LLMMessage) -> str:
    return type(message).__name__


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_through_json(message: LLMMessage) -> None:
    assert TypeAdapter[Any](LLMMessage).validate_json(message.model_dump_json()) == message
    assert message.type == type(message).__name__


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_over_the_bus(message: LLMMessage) -> None:
    entry = MessageRegistry().entry_for(message)
    assert entry.decode(entry.encode(message)) == message


def test_a_whole_conversation_and_a_call_over_the_bus() -> None:
    for value in (Conversation(messages=MESSAGES), FunctionCall("1", "{}", "f")):
        entry = MessageRegistry().entry_for(value)
        assert entry.decode(entry.encode(value)) == value


def test_a_message_without_its_type_is_refused() -> None:
    with pytest.raises(ValidationError):
        Conversation.model_validate({"messages": [{"content": "x", "source": "y"}]})


def test_messages_are_values() -> None:
    assert SystemMessage(content="a") == SystemMessage(content="a")
    with pytest.raises(ValidationError):
        SystemMessage(content="a").content = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        FunctionCall("1", "{}", "f").name = "g"  # type: ignore[misc]
