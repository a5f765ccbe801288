"""Messages and events as text for a console, without anything that a terminal would obey."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

from callboard.agents.task import Said
from callboard.foundation.printable import one_line, printable
from callboard.memory.image import Image
from callboard.messages.chat import MultiModalMessage
from callboard.messages.events import (
    MemoryQueryEvent,
    SelectSpeakerEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from callboard.models.types import RequestUsage

ITERM_IMAGE: Final = "\033]1337;File=inline=1:{data}\a"


def text_of(message: Said, *, with_images: bool = False) -> str:
    """What a person reads of a message.

    Args:
        message: A chat message or an event.
        with_images: Show pictures as iTerm2 does, instead of `<image>`.
    """
    if isinstance(message, MultiModalMessage):
        return "\n".join(_part(part, with_images) for part in message.content)
    word = _WORDS.get(type(message))
    return printable(message.to_text() if word is None else word(message))


def usage_of(usage: RequestUsage) -> str:
    """Tokens of one message."""
    return f"[Prompt tokens: {usage.prompt_tokens}, Completion tokens: {usage.completion_tokens}]"


def _part(part: str | Image, with_images: bool) -> str:
    if isinstance(part, str):
        return printable(part)
    if not with_images or part.data is None or not _is_base64(part.data):
        return "<image>"
    return ITERM_IMAGE.format(data=part.data)


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error:
        return False
    return True


def _calls(event: ToolCallRequestEvent) -> str:
    return "\n".join(f"{call.name}({one_line(call.arguments)})" for call in event.content)


def _results(event: ToolCallExecutionEvent) -> str:
    return "\n".join(
        f"{result.name}{' failed' if result.is_error else ''}: {result.content}" for result in event.content
    )


def _memories(event: MemoryQueryEvent) -> str:
    return "\n".join(str(found.content) for found in event.content)


def _speakers(event: SelectSpeakerEvent) -> str:
    return ", ".join(event.content)


_WORDS: Final[Mapping[type[Any], Callable[[Any], str]]] = {
    ToolCallRequestEvent: _calls,
    ToolCallExecutionEvent: _results,
    MemoryQueryEvent: _memories,
    SelectSpeakerEvent: _speakers,
}
