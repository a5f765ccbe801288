"""Messages of a group chat as a model reads them, and a model's answer as a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

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
from callboard.models.types import CreateResult

from .agent import Message
from .content import text_of

SYSTEM: Final = ("system", "developer")
RESULTS: Final = ("tool", "function")


def to_model(messages: Sequence[Message], name: str) -> list[LLMMessage]:
    """The messages for a model.

    Args:
        messages: As agents keep them.
        name: Of the agent that the model answers for.
    """
    return [_to_model(message, name) for message in messages]


def _to_model(message: Message, name: str) -> LLMMessage:
    role, content = message.get("role", "user"), message.get("content")
    calls = _calls(message)
    if message.get("tool_responses") or role in RESULTS:
        return FunctionExecutionResultMessage(content=_results(message))
    if calls:
        return AssistantMessage(
            content=calls, thought=text_of(content) or None, source=message.get("name", name)
        )
    if role in SYSTEM:
        return SystemMessage(content=text_of(content))
    if role == "assistant":
        return AssistantMessage(content=text_of(content), source=message.get("name", name))
    return UserMessage(content=_parts(content), source=message.get("name", "user"))


def _calls(message: Message) -> list[FunctionCall]:
    calls = [
        FunctionCall(
            id=str(call.get("id", "")), name=call["function"]["name"], arguments=call["function"]["arguments"]
        )
        for call in message.get("tool_calls") or ()
    ]
    old = message.get("function_call")
    return [*calls, FunctionCall(id="", name=old["name"], arguments=old["arguments"])] if old else calls


def _results(message: Message) -> list[FunctionExecutionResult]:
    responses = message.get("tool_responses") or [message]
    return [
        FunctionExecutionResult(
            content=text_of(response.get("content")),
            name=response.get("name", ""),
            call_id=response.get("tool_call_id", ""),
            is_error=response.get("is_error"),
        )
        for response in responses
    ]


def _parts(content: Any) -> str | list[str | Image]:
    if not isinstance(content, list):
        return text_of(content)
    return [_part(part) for part in content]


def _part(part: Any) -> str | Image:
    if isinstance(part, dict) and part.get("type") == "image_url":
        given = part["image_url"]
        url = str(given["url"] if isinstance(given, dict) else given)
        return Image(data=url.partition(",")[2]) if url.startswith("data:") else Image(url=url)
    return text_of([part])


def from_model(result: CreateResult) -> Message:
    """What a model answered, as a message without a name."""
    if isinstance(result.content, str):
        return {"content": result.content, "role": "assistant"}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in result.content
    ]
    return {"content": result.thought or "", "role": "assistant", "tool_calls": calls}
