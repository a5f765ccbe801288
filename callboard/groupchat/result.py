"""What came of a chat."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from .agent import Message
from .usage import ModelUsage


@dataclass
class ChatResult:
    """What came of a chat.

    Attributes:
        chat_history: The messages, as the one who began it has them.
        summary: As `summary_method` makes it.
        cost: Tokens and dollars by model, in AG2's shape, with all that a model spent to choose speakers.
        human_input: What the person behind the one who began it said.
        stop_reason: Why it ended; None: nothing says so.
        chat_id: A number of its own.
    """

    chat_history: list[Message] = field(default_factory=list)
    summary: str | Message = ""
    cost: dict[str, Any] = field(default_factory=lambda: ModelUsage().cost())
    human_input: list[str] = field(default_factory=list)
    stop_reason: str | None = None
    chat_id: int = field(default_factory=lambda: uuid.uuid4().int)
