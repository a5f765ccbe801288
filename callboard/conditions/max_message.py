"""Ends a conversation after a number of messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, NonNegativeInt

from callboard.foundation.component import Component
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import StopMessage

from .base import Messages, TerminationCondition
from .errors import ConditionSettingError, TerminatedException
from .saved import read_state


class MaxMessageTerminationConfig(BaseModel):
    """A MaxMessageTermination as plain data; its fields are the arguments of MaxMessageTermination."""

    max_messages: int
    include_agent_event: bool = False


class MaxMessageTermination(TerminationCondition, Component[MaxMessageTerminationConfig]):
    """Is reached when a number of messages have been said; those of the task count, too.

    Args:
        max_messages: The number, 1 or more. (AutoGen takes 0, and fails when it is asked.)
        include_agent_event: Whether events count as well.

    Raises:
        ConditionSettingError: The number is less than 1 (a ValueError).
    """

    component_config_schema = MaxMessageTerminationConfig
    component_provider_override = "callboard.conditions.MaxMessageTermination"

    def __init__(self, max_messages: int, include_agent_event: bool = False) -> None:
        if max_messages < 1:
            raise ConditionSettingError("max_messages", str(max_messages), "at least 1")
        self._max_messages = max_messages
        self._include_agent_event = include_agent_event
        self._count = 0

    @property
    def terminated(self) -> bool:
        """Whether so many messages have been said."""
        return self._reached()

    def _reached(self) -> bool:
        return self._count >= self._max_messages

    async def __call__(self, messages: Messages) -> StopMessage | None:
        """Count what is new; see `TerminationCondition`."""
        if self.terminated:
            raise TerminatedException
        self._count += sum(
            self._include_agent_event or isinstance(said, BaseChatMessage) for said in messages
        )
        if not self._reached():
            return None
        text = (
            f"Maximum number of messages {self._max_messages} reached, current message count: {self._count}"
        )
        return StopMessage(content=text, source="MaxMessageTermination")

    async def reset(self) -> None:
        """Count from 0."""
        self._count = 0

    async def save_state(self) -> Mapping[str, Any]:
        """How many messages were counted."""
        return {"message_count": self._count}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            ConditionStateError: It is no such state (a ValueError).
        """
        self._count = read_state(_State, state, self).message_count

    def _to_config(self) -> MaxMessageTerminationConfig:
        return MaxMessageTerminationConfig(
            max_messages=self._max_messages, include_agent_event=self._include_agent_event
        )

    @classmethod
    def _from_config(cls, config: MaxMessageTerminationConfig) -> Self:
        return cls(**dict(config))


class _State(BaseModel):
    message_count: NonNegativeInt
