"""Messages for conversations of tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)


def system(text: str) -> LLMMessage:
    return SystemMessage(content=text)


def says(text: str) -> LLMMessage:
    return UserMessage(content=text, source="user")


def answers(text: str) -> LLMMessage:
    return AssistantMessage(content=text, source="model")


def calls(*ids: str) -> LLMMessage:
    return AssistantMessage(content=[FunctionCall(id, "{}", "f") for id in ids], source="model")  # noqa: A001


def results(*ids: str) -> LLMMessage:
    return FunctionExecutionResultMessage(
        content=[FunctionExecutionResult(content="done", name="f", call_id=id) for id in ids]  # noqa: A001
    )


class OneEach:
    """Counts every message as one token, of `room` in all."""

    def __init__(self, room: int = 100) -> None:
        self.room = room
        self.counted = 0

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Any] = ()) -> int:
        self.counted += 1
        return len(messages) + len(tools)

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Any] = ()) -> int:
        return self.room - self.count_tokens(messages, tools=tools)
