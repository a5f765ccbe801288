"""Ends a conversation when a text message is said."""

from __future__ import annotations

from callboard.messages.chat import TextMessage

from .base import Messages
from .latched import LatchedTermination


class TextMessageTermination(LatchedTermination):
    """Is reached when a `TextMessage` is said, in the place of a tool's summary for example. The task counts, too.

    Args:
        source: Who has to say it; None: anybody.
    """

    def __init__(self, source: str | None = None) -> None:
        super().__init__()
        self._source = source

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages is a TextMessage of the source."""
        for said in messages:
            if isinstance(said, TextMessage) and self._source in (None, said.source):
                return f"Text message received from '{said.source}'"
        return None
