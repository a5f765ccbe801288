"""Messages of classes that a process does not have, for processes that only look: their data, as JSON."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ConfigDict

from callboard.memory.llm_messages import UserMessage

from .chat import BaseChatMessage, stand_in


class UnknownMessage(BaseChatMessage):
    """A message, or an event, whose class is not known here.

    Attributes:
        type: The name of its class.
        content: What it says; None: its other fields do.
    """

    model_config = ConfigDict(extra="allow")

    type: str
    content: Any = None

    def to_text(self) -> str:
        """The content, or the fields that are its own: a text as it is, all else as JSON."""
        told = self.model_extra if self.content is None else self.content
        return told if isinstance(told, str) else json.dumps(told, ensure_ascii=False, indent=2, default=str)

    def to_model_text(self) -> str:
        """As `to_text`."""
        return self.to_text()

    def to_model_message(self) -> UserMessage:
        """The text, said by `source`."""
        return UserMessage(content=self.to_text(), source=self.source)


def show_unknown() -> None:
    """From now on this process reads messages of unknown classes as `UnknownMessage`, and refuses them no more.

    It is for processes that show what others have said. One that works has to refuse what it does not understand.
    """
    stand_in(UnknownMessage)
