"""Ends a conversation when somebody says so."""

from __future__ import annotations

from callboard.messages.chat import StopMessage

from .base import Messages
from .latched import LatchedTermination


class StopMessageTermination(LatchedTermination):
    """Is reached when a `StopMessage` is said."""

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages is a StopMessage."""
        return "Stop message received" if any(isinstance(said, StopMessage) for said in messages) else None
