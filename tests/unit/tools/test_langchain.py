"""Tools of LangChain, by stand-ins with its documented interface."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from callboard.tools import LangChainToolAdapter, StaticWorkbench
from callboard.tools.errors import ToolDeclarationError
from tests.helpers.schemas import parameters


class Numbers(BaseModel):
    a: int = Field(description="the first")
    b: int = 2


class StandIn:
    """A tool like the BaseTool of LangChain's documentation."""

    def __init__(self, args_schema: Any) -> None:
        self.name = "langchain_add"
        self.description = "Adds numbers."
        self.args_schema = args_schema
        self.seen: list[Any] = []

    async def ainvoke(self, input: Any, config: Any = None) -> Any:
        self.seen.append(input)
        if isinstance(input, dict) and input.get("a") == 13:
            raise ValueError("unlucky")
        return {"got": input}


async def test_a_tool_with_a_model() -> None:
    theirs = StandIn(Numbers)
    workbench = StaticWorkbench([LangChainToolAdapter(theirs)])
    (schema,) = await workbench.list_tools()
    assert parameters(schema)["properties"]["a"]["description"] == "the first"
    result = await workbench.call_tool("langchain_add", {"a": 1})
    assert result.to_text() == '{"got":{"a":1,"b":2}}'
    assert theirs.seen == [{"a": 1, "b": 2}]
    assert "a: Field required" in (await workbench.call_tool("langchain_add", {})).to_text()
    assert (await workbench.call_tool("langchain_add", {"a": 13})).to_text() == "ValueError: unlucky"


async def test_a_tool_with_a_json_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    workbench = StaticWorkbench([LangChainToolAdapter(StandIn(schema))])
    assert parameters((await workbench.list_tools())[0])["properties"] == schema["properties"]
    assert (await workbench.call_tool("langchain_add", {"a": 1})).to_text() == '{"got":{"a":1}}'


async def test_a_tool_that_takes_one_text() -> None:
    theirs = StandIn(None)
    result = await StaticWorkbench([LangChainToolAdapter(theirs)]).call_tool(
        "langchain_add", {"input": "1+1"}
    )
    assert not result.is_error
    assert theirs.seen == ["1+1"]


def test_what_is_none() -> None:
    with pytest.raises(ToolDeclarationError, match="a str is no tool"):
        LangChainToolAdapter("x")  # type: ignore[arg-type]
