"""Ends a conversation when somebody says so."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel

from callboard.foundation.component import Component
from callboard.messages.chat import StopMessage

from .base import Messages
from .latched import LatchedTermination


class StopMessageTerminationConfig(BaseModel):
    """A StopMessageTermination as plain data: nothing but its name."""


class StopMessageTermination(LatchedTermination, Component[StopMessageTerminationConfig]):
    """Is reached when a `StopMessage` is said."""

    component_config_schema = StopMessageTerminationConfig
    component_provider_override = "callboard.conditions.StopMessageTermination"

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages is a StopMessage."""
        return "Stop message received" if any(isinstance(said, StopMessage) for said in messages) else None

    def _to_config(self) -> StopMessageTerminationConfig:
        return StopMessageTerminationConfig()

    @classmethod
    def _from_config(cls, config: StopMessageTerminationConfig) -> Self:
        return cls()
