"""Ends a conversation when it is handed over to somebody."""

from __future__ import annotations

from callboard.messages.chat import HandoffMessage

from .base import Messages
from .latched import LatchedTermination


class HandoffTermination(LatchedTermination):
    """Is reached when a `HandoffMessage` names a target, such as a person who is not a member of the team.

    Args:
        target: Name of the target.
    """

    def __init__(self, target: str) -> None:
        super().__init__()
        self._target = target

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages hands over to the target."""
        for said in messages:
            if isinstance(said, HandoffMessage) and said.target == self._target:
                return f"Handoff to {self._target} from {said.source} detected."
        return None
