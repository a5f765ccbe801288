"""Tools as classes."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from pydantic import BaseModel

from callboard import CancellationToken
from callboard.tools import BaseStreamTool, BaseTool, BaseToolWithState, StreamTool, Tool
from callboard.tools.errors import ToolArgumentsError, ToolDeclarationError
from tests.helpers.schemas import parameters


class Numbers(BaseModel):
    a: int
    b: int = 1


class Sum(BaseModel):
    total: int


class Add(BaseTool[Numbers, Sum]):
    def __init__(self, strict: bool = False) -> None:
        super().__init__(Numbers, Sum, "add", "Adds numbers.", strict)

    async def run(self, args: Numbers, cancellation_token: CancellationToken) -> Sum:
        return Sum(total=args.a + args.b)


class Countdown(BaseStreamTool[Numbers, str, Sum]):
    def __init__(self) -> None:
        super().__init__(Numbers, Sum, "countdown", "Counts.")

    async def run_stream(
        self, args: Numbers, cancellation_token: CancellationToken
    ) -> AsyncGenerator[str | Sum, None]:
        for number in range(args.a, 0, -1):
            yield str(number)
        yield Sum(total=args.a)


class Memory(BaseModel):
    seen: list[int] = []


class Remember(BaseToolWithState[Numbers, int, Memory]):
    def __init__(self) -> None:
        super().__init__(Numbers, int, Memory, "remember", "Remembers.")
        self.seen: list[int] = []

    async def run(self, args: Numbers, cancellation_token: CancellationToken) -> int:
        self.seen.append(args.a)
        return len(self.seen)

    def save_state(self) -> Memory:
        return Memory(seen=self.seen)

    def load_state(self, state: Memory) -> None:
        self.seen = list(state.seen)


async def test_a_tool_says_what_it_is_and_runs() -> None:
    tool = Add()
    assert isinstance(tool, Tool)
    assert not isinstance(tool, StreamTool)
    assert (tool.name, tool.description) == ("add", "Adds numbers.")
    assert tool.args_type() is Numbers
    assert tool.return_type() is Sum
    assert tool.state_type() is None
    assert parameters(tool.schema).get("required") == ["a"]
    result = await tool.run_json({"a": 2}, CancellationToken())
    assert result == Sum(total=3)
    assert tool.return_value_as_string(result) == '{"total":3}'
    assert await tool.save_state_json() == {}
    await tool.load_state_json({})


def test_strict_is_checked_when_the_tool_is_made() -> None:
    with pytest.raises(ToolDeclarationError, match="b has a default"):
        Add(strict=True)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "a: Field required"),
        ({"a": "x"}, "a: Input should be a valid integer"),
        ([1], "one JSON object, not list"),
        ("a", "one JSON object, not str"),
    ],
)
async def test_arguments_that_do_not_fit(arguments: dict[str, int], problem: str) -> None:
    with pytest.raises(ToolArgumentsError, match=problem) as caught:
        await Add().run_json(arguments, CancellationToken())
    assert caught.value.tool == "add"


async def test_values_are_not_repeated_in_errors() -> None:
    with pytest.raises(ToolArgumentsError) as caught:
        await Add().run_json({"a": "a very long secret"}, CancellationToken())
    assert "secret" not in str(caught.value)


async def test_a_stream_tool_yields_and_its_last_item_is_its_result() -> None:
    tool = Countdown()
    assert isinstance(tool, StreamTool)
    items = [item async for item in tool.run_json_stream({"a": 2}, CancellationToken())]
    assert items == ["2", "1", Sum(total=2)]
    assert await tool.run_json({"a": 2}, CancellationToken()) == Sum(total=2)
    with pytest.raises(ToolArgumentsError):
        await anext(tool.run_json_stream({}, CancellationToken()))


async def test_the_state_of_a_tool_goes_out_and_in() -> None:
    tool = Remember()
    await tool.run_json({"a": 5}, CancellationToken())
    state = await tool.save_state_json()
    assert state == {"seen": [5]}
    other = Remember()
    await other.load_state_json(state)
    assert await other.run_json({"a": 6}, CancellationToken()) == 2
    assert other.state_type() is Memory
    with pytest.raises(ToolDeclarationError, match=r"remember: seen: Input should be a valid list"):
        await other.load_state_json({"seen": 3})
