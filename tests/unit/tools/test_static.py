"""Workbenches with a fixed list of tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from pydantic import BaseModel

from callboard import CancellationToken
from callboard.tools import (
    BaseStreamTool,
    BaseToolWithState,
    StaticStreamWorkbench,
    StaticWorkbench,
    StreamWorkbench,
    ToolOverride,
    ToolResult,
    tool,
)
from callboard.tools.errors import ToolDeclarationError, UnknownToolError


class Nothing(BaseModel):
    pass


class Seen(BaseModel):
    count: int = 0


class Counter(BaseToolWithState[Nothing, int, Seen]):
    def __init__(self) -> None:
        super().__init__(Nothing, int, Seen, "count", "Counts.")
        self.count = 0

    async def run(self, args: Nothing, cancellation_token: CancellationToken) -> int:
        self.count += 1
        return self.count

    def save_state(self) -> Seen:
        return Seen(count=self.count)

    def load_state(self, state: Seen) -> None:
        self.count = state.count


class Steps(BaseStreamTool[Nothing, str, str]):
    def __init__(self) -> None:
        super().__init__(Nothing, str, "steps", "Steps.")

    async def run_stream(
        self, args: Nothing, cancellation_token: CancellationToken
    ) -> AsyncGenerator[str, None]:
        yield "one"
        yield "done"


@tool
async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
async def wait() -> str:
    """Waits for ever."""
    await asyncio.Event().wait()
    return ""


async def test_tools_are_listed_and_called() -> None:
    async with StaticWorkbench([add, Counter()]) as workbench:
        assert [schema["name"] for schema in await workbench.list_tools()] == ["add", "count"]
        result = await workbench.call_tool("add", {"a": 1, "b": 2})
        assert (result.name, result.to_text(), result.is_error) == ("add", "3", False)
        await workbench.reset()


async def test_a_tool_that_does_not_exist_is_a_result_with_the_nearest_name() -> None:
    result = await StaticWorkbench([add]).call_tool("ad", {})
    assert (result.is_error, result.to_text()) == (True, "Tool ad not found. Did you mean 'add'?")
    nothing = await StaticWorkbench([]).call_tool("ad")
    assert nothing.to_text() == "Tool ad not found. There are no tools here."


async def test_overrides_are_shown_and_understood() -> None:
    workbench = StaticWorkbench([add], {"add": ToolOverride(name="plus", description="Plus.")})
    (schema,) = await workbench.list_tools()
    assert (schema["name"], schema.get("description")) == ("plus", "Plus.")
    for name in ("plus", "add"):
        result = await workbench.call_tool(name, {"a": 1, "b": 2})
        assert (result.name, result.to_text()) == (name, "3")
    assert "Did you mean 'plus'" in (await workbench.call_tool("pluss")).to_text()


async def test_a_time_limit_for_all_tools() -> None:
    result = await StaticWorkbench([wait], timeout=0.01).call_tool("wait")
    assert "did not end within 0.01 s" in result.to_text()


async def test_a_token_ends_a_call() -> None:
    token = CancellationToken()
    calling = asyncio.ensure_future(StaticWorkbench([wait]).call_tool("wait", cancellation_token=token))
    await asyncio.sleep(0)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_states_of_tools_go_out_and_in() -> None:
    first = StaticWorkbench([add, Counter()])
    await first.call_tool("count")
    state = await first.save_state()
    second = StaticWorkbench([Counter()])
    await second.load_state(state)
    assert (await second.call_tool("count")).to_text() == "2"


@pytest.mark.parametrize(
    "state", [{}, {"type": "other"}, {"type": "StaticWorkbenchState", "tools": {"count": 3}}]
)
async def test_a_state_that_is_none_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(ToolDeclarationError):
        await StaticWorkbench([Counter()]).load_state(state)


def test_what_can_not_be_together() -> None:
    with pytest.raises(ToolDeclarationError, match="'add'"):
        StaticWorkbench([add, add])
    with pytest.raises(ToolDeclarationError, match="a function is no tool"):
        StaticWorkbench([test_what_can_not_be_together])  # type: ignore[list-item]
    with pytest.raises(UnknownToolError):
        StaticWorkbench([add], {"ad": ToolOverride(name="plus")})


async def test_streams() -> None:
    workbench = StaticStreamWorkbench([Steps(), add], {"steps": ToolOverride(name="walk")})
    assert isinstance(workbench, StreamWorkbench)
    first, result = [item async for item in workbench.call_tool_stream("walk")]
    assert first == "one"
    assert isinstance(result, ToolResult)
    assert (result.name, result.to_text()) == ("walk", "done")
    assert (await workbench.call_tool("walk")).to_text() == "done"
    (missing,) = [item async for item in workbench.call_tool_stream("run")]
    assert missing.is_error


async def test_a_workbench_without_streams_streams_its_result() -> None:
    (result,) = [item async for item in StaticWorkbench([Steps()]).call_tool_stream("steps")]
    assert result.to_text() == "done"
