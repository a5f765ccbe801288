"""Ends a conversation from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel

from callboard.foundation.component import Component

from .base import Messages
from .latched import LatchedTermination
from .saved import read_state


class ExternalTerminationConfig(BaseModel):
    """A ExternalTermination as plain data: nothing but its name."""


class ExternalTermination(LatchedTermination, Component[ExternalTerminationConfig]):
    """Is reached when somebody has called `set`: the turn that runs is finished first."""

    component_config_schema = ExternalTerminationConfig
    component_provider_override = "callboard.conditions.ExternalTermination"

    def __init__(self) -> None:
        super().__init__()
        self._set = False

    def set(self) -> None:
        """End the conversation after the turn that runs."""
        self._set = True

    async def reason(self, messages: Messages) -> str | None:
        """Whether `set` was called."""
        return "External termination requested" if self._set else None

    async def reset(self) -> None:
        """Be as in the beginning; an earlier `set` is forgotten."""
        await super().reset()
        self._set = False

    async def save_state(self) -> Mapping[str, Any]:
        """Whether it was set, and whether it has been reached."""
        return {**await super().save_state(), "set": self._set}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            ConditionStateError: It is no such state (a ValueError).
        """
        saved = read_state(_State, state, self)
        await super().load_state(state)
        self._set = saved.set

    def _to_config(self) -> ExternalTerminationConfig:
        return ExternalTerminationConfig()

    @classmethod
    def _from_config(cls, config: ExternalTerminationConfig) -> Self:
        return cls()


class _State(BaseModel):
    set: bool
