"""All tools of one assistant as one workbench."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from callboard.cancellation import CancellationToken
from callboard.tools.approval import NeedsApproval
from callboard.tools.errors import DuplicateToolError, UnknownToolError
from callboard.tools.results import ToolResult, error_result
from callboard.tools.schema import ToolSchema
from callboard.tools.workbench import StreamWorkbench, Workbench


class Bench(StreamWorkbench):
    """Several workbenches as one, for one turn.

    A call goes to the workbench that listed the tool last: asking all of them before each call, as AutoGen does, is a
    request to every MCP server.

    Args:
        workbenches: Their tools are listed in this order.
    """

    def __init__(self, workbenches: Sequence[Workbench]) -> None:
        self._workbenches = workbenches
        self._places: dict[str, Workbench] = {}

    async def list_tools(self) -> list[ToolSchema]:
        """The tools of all of them.

        Raises:
            DuplicateToolError: Two have one name (a ValueError). AutoGen shows both to the model and calls the first.
        """
        places: dict[str, Workbench] = {}
        schemas: list[ToolSchema] = []
        for workbench in self._workbenches:
            for schema in await workbench.list_tools():
                if schema["name"] in places:
                    raise DuplicateToolError(schema["name"])
                places[schema["name"]] = workbench
                schemas.append(schema)
        self._places = places
        return schemas

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool; see `Workbench.call_tool`."""
        place = self._places.get(name)
        if place is None:
            return self._unknown(name)
        return await place.call_tool(name, arguments, cancellation_token, call_id)

    def approval_of(self, name: str) -> NeedsApproval:
        """What the workbench that has the tool says; see `Workbench.approval_of`."""
        place = self._places.get(name)
        return False if place is None else place.approval_of(name)

    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Call a tool; what it yields on the way, and the ToolResult at the end."""
        place = self._places.get(name)
        if place is None:
            yield self._unknown(name)
            return
        async with aclosing(place.call_tool_stream(name, arguments, cancellation_token, call_id)) as items:
            async for item in items:
                yield item

    def _unknown(self, name: str) -> ToolResult:
        return error_result(name, UnknownToolError(name, list(self._places)))
