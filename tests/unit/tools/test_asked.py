"""Calls as models write them."""

from __future__ import annotations

import pytest

from callboard.memory.llm_messages import FunctionCall
from callboard.tools import StaticStreamWorkbench, StaticWorkbench, tool
from callboard.tools.call import AskedCall, read_call
from callboard.tools.errors import ToolArgumentsError


@tool
async def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


def call(arguments: str, name: str = "add", id: str = "call_1") -> FunctionCall:
    return FunctionCall(id=id, arguments=arguments, name=name)


def test_a_models_call_is_read() -> None:
    assert read_call(call('{"a": 1}')) == AskedCall("add", {"a": 1}, "call_1")
    assert read_call(call(" ", id="")) == AskedCall("add", {}, None)
    assert read_call("add", {"a": 2}, "x") == AskedCall("add", {"a": 2}, "x")


def test_what_is_given_beside_a_models_call_comes_first() -> None:
    assert read_call(call("no JSON"), {"a": 3}, "y") == AskedCall("add", {"a": 3}, "y")


@pytest.mark.parametrize("text", ['{"a": 1', "[1]", "1", "null", "[" * 100_000])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(ToolArgumentsError, match="add"):
        read_call(call(text))


@pytest.mark.parametrize(
    ("asked", "is_error", "text"),
    [
        (call('{"a": 1, "b": 4}'), False, "5"),
        (call('{"a": 1'), True, "The arguments don't fit add: they are not valid JSON"),
        (call("[1, 2]"), True, "they have to be one JSON object, not list"),
        (call("{}"), True, "a: "),
        (call("{}", name="ad"), True, "Tool ad not found. Did you mean 'add'?"),
    ],
)
async def test_a_workbench_takes_a_models_call_as_it_is(
    asked: FunctionCall, is_error: bool, text: str
) -> None:
    result = await StaticWorkbench([add]).call_tool(asked)
    assert (result.name, result.is_error) == (asked.name, is_error)
    assert text in result.to_text()
    (streamed,) = [item async for item in StaticStreamWorkbench([add]).call_tool_stream(asked)]
    assert streamed == result
