"""Ends a conversation when a tool has run."""

from __future__ import annotations

from callboard.messages.events import ToolCallExecutionEvent

from .base import Messages
from .latched import LatchedTermination


class FunctionCallTermination(LatchedTermination):
    """Is reached when a `ToolCallExecutionEvent` holds the result of a tool, also where the tool failed.

    Args:
        function_name: Name of the tool.
    """

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
