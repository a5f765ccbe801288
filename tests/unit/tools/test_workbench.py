"""The methods that every workbench inherits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callboard import CancellationToken
from callboard.tools import TextResultContent, ToolResult, ToolSchema, Workbench


class Smallest(Workbench):
    def __init__(self) -> None:
        self.log: list[str] = []

    async def list_tools(self) -> list[ToolSchema]:
        return []

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        return ToolResult(name=name, result=[TextResultContent(content="x")])

    async def start(self) -> None:
        self.log.append("start")

    async def stop(self) -> None:
        self.log.append("stop")


async def test_two_methods_are_enough() -> None:
    workbench = Smallest()
    async with workbench as entered:
        assert entered is workbench
        await workbench.reset()
        await workbench.load_state(await workbench.save_state())
        (result,) = [item async for item in workbench.call_tool_stream("t")]
        assert result.to_text() == "x"
    assert workbench.log == ["start", "stop"]
