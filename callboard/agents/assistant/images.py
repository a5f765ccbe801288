"""Prompts for models that can't see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from callboard.memory.llm_messages import LLMMessage, UserMessage

PLACEHOLDER: Final = "<image>"


def without_images(messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """The messages with a placeholder for each picture; texts that stood beside pictures get lines of their own."""
    return [_without(message) for message in messages]


def _without(message: LLMMessage) -> LLMMessage:
    if not isinstance(message, UserMessage) or isinstance(message.content, str):
        return message
    lines = [part if isinstance(part, str) else PLACEHOLDER for part in message.content]
    return UserMessage(content="\n".join(lines), source=message.source)
