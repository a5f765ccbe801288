"""Ends a conversation when it is handed over to somebody."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel

from callboard.foundation.component import Component
from callboard.messages.chat import HandoffMessage

from .base import Messages
from .latched import LatchedTermination


class HandoffTerminationConfig(BaseModel):
    """A HandoffTermination as plain data; its fields are the arguments of HandoffTermination."""

    target: str


class HandoffTermination(LatchedTermination, Component[HandoffTerminationConfig]):
    """Is reached when a `HandoffMessage` names a target, such as a person who is not a member of the team.

    Args:
        target: Name of the target.
    """

    component_config_schema = HandoffTerminationConfig
    component_provider_override = "callboard.conditions.HandoffTermination"

    def __init__(self, target: str) -> None:
        super().__init__()
        self._target = target

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages hands over to the target."""
        for said in messages:
            if isinstance(said, HandoffMessage) and said.target == self._target:
                return f"Handoff to {self._target} from {said.source} detected."
        return None

    def _to_config(self) -> HandoffTerminationConfig:
        return HandoffTerminationConfig(target=self._target)

    @classmethod
    def _from_config(cls, config: HandoffTerminationConfig) -> Self:
        return cls(**dict(config))
