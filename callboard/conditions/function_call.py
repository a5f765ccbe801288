"""Ends a conversation when a tool has run."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel

from callboard.foundation.component import Component
from callboard.messages.events import ToolCallExecutionEvent

from .base import Messages
from .latched import LatchedTermination


class FunctionCallTerminationConfig(BaseModel):
    """A FunctionCallTermination as plain data; its fields are the arguments of FunctionCallTermination."""

    function_name: str


class FunctionCallTermination(LatchedTermination, Component[FunctionCallTerminationConfig]):
    """Is reached when a `ToolCallExecutionEvent` holds the result of a tool, also where the tool failed.

    Args:
        function_name: Name of the tool.
    """

    component_config_schema = FunctionCallTerminationConfig
    component_provider_override = "callboard.conditions.FunctionCallTermination"

    def __init__(self, function_name: str) -> None:
        super().__init__()
        self._function_name = function_name

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the events holds a result of the tool."""
        for said in messages:
            if isinstance(said, ToolCallExecutionEvent) and self._ran_in(said):
                return f"Function '{self._function_name}' was executed."
        return None

    def _ran_in(self, event: ToolCallExecutionEvent) -> bool:
        return any(result.name == self._function_name for result in event.content)

    def _to_config(self) -> FunctionCallTerminationConfig:
        return FunctionCallTerminationConfig(function_name=self._function_name)

    @classmethod
    def _from_config(cls, config: FunctionCallTerminationConfig) -> Self:
        return cls(**dict(config))
