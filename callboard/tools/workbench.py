"""The interface of workbenches: sets of tools, listed and called in one way, which may change while they are used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel

from callboard.cancellation import CancellationToken
from callboard.foundation.component import ComponentBase

from .approval import NeedsApproval
from .results import ToolResult
from .schema import ToolSchema


class Workbench(ABC, ComponentBase[BaseModel]):
    """Lists tools and calls them by name; errors of tools are results, so that the model can read them.

    Ask `list_tools` before each call of a model: the list may change. As a context manager it starts and stops.
    """

    component_type = "workbench"

    @abstractmethod
    async def list_tools(self) -> list[ToolSchema]:
        """The tools that can be called now."""
        ...

    @abstractmethod
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool. All our workbenches take a whole FunctionCall of a model as `name`, too.

        Args:
            name: As `list_tools` has it.
            arguments: By name, as plain data; None: none.
            cancellation_token: Ends the tool when it is cancelled.
            call_id: The id that the model gave to the call.

        Returns:
            The result. A tool that does not exist, raises, takes too long, or is given arguments that are no JSON or
            don't fit, gives a result with `is_error` that says so.

        Raises:
            asyncio.CancelledError: The token, or the caller, was cancelled.
            FencedError: This worker has lost the message that it handles; another one has it.
            ServerUnavailableError: The server of the bus was lost in the middle of it.
        """
        ...

    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Call a tool; what it yields on the way, and the ToolResult at the end. Here: only the result.

        Close it (``aclose``) if you don't read it to its end: that ends the tool.
        """
        yield await self.call_tool(name, arguments, cancellation_token, call_id)

    def approval_of(self, name: str) -> NeedsApproval:
        """Which calls of a tool a person has to allow: here none. A workbench around others hands theirs on.

        Args:
            name: As `list_tools` has it; there may be no such tool.
        """
        return False

    async def start(self) -> None:
        """Get ready: connect, start processes. Safe to repeat."""

    async def stop(self) -> None:
        """Give back what `start` took. Safe to repeat."""

    async def reset(self) -> None:
        """Go back to how it was after `start`."""

    async def save_state(self) -> Mapping[str, Any]:
        """The state of the workbench and its tools, as plain data."""
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class StreamWorkbench(Workbench):
    """A workbench whose tools may yield something on the way: a name of AutoGen's to ask for with isinstance."""
