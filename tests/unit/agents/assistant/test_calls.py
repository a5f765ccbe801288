"""The calls of an answer: at the same time, with what tools say on the way, and what they say after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pydantic import BaseModel

from callboard.agents.assistant import outcomes_of
from callboard.core.cancellation import CancellationToken
from callboard.memory.llm_messages import FunctionExecutionResultMessage, Image
from callboard.messages import TextMessage, ToolCallSummaryMessage
from callboard.tools import (
    BaseStreamTool,
    FunctionTool,
    IfUnknown,
    ImageResultContent,
    ToolResult,
    Workbench,
    tool,
)
from callboard.tools.schema import ToolSchema

from .talking import assistant, calls, remembered, said, short


class NoArguments(BaseModel):
    """None."""


class Talking(BaseStreamTool[NoArguments, Any, str]):
    """Says something on the way."""

    def __init__(self, *items: Any) -> None:
        super().__init__(NoArguments, str, "talk", "Talks.")
        self.items = items

    async def run_stream(
        self, args: NoArguments, cancellation_token: CancellationToken
    ) -> AsyncGenerator[Any, None]:
        for item in self.items:
            yield item
        yield "done"


async def test_what_tools_say_on_the_way_is_said() -> None:
    agent, _ = assistant(calls("talk"), tools=[Talking(TextMessage(content="wait", source="tool"))])
    result = await agent.run(task="go")
    assert [short(item) for item in result.messages[1:]] == [
        ("calls", "talk"),
        ("TextMessage", "wait"),
        ("results", "done"),
        ("ToolCallSummaryMessage", "done"),
    ]
    assert len(await remembered(agent)) == 3


async def test_what_is_no_message_is_warned_of() -> None:
    agent, _ = assistant(calls("talk"), tools=[Talking({"half": "done"})])
    with pytest.warns(UserWarning, match="the tool talk yielded a dict"):
        assert (await said(agent))[1] == ("results", "done")


async def test_calls_run_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    async def meet(who: str = "") -> str:
        """Waits for the other one."""
        await both.wait()
        return "met"

    other = FunctionTool(meet, name="other")
    agent, _ = assistant(calls("meet", "other"), tools=[meet, other])
    async with asyncio.timeout(10):
        assert (await said(agent))[1] == ("results", "met", "met")


class Pictures(Workbench):
    """Has a tool that returns a picture."""

    async def list_tools(self) -> list[ToolSchema]:
        return [ToolSchema(name="draw", description="Draws.")]

    async def call_tool(self, name: str, *args: Any, **kwargs: Any) -> ToolResult:
        picture = Image.from_url("https://example.com/a.png")
        return ToolResult(name=name, result=[ImageResultContent(content=picture)])


async def test_pictures_are_described() -> None:
    agent, _ = assistant(calls("draw"), workbench=Pictures())
    message = (await agent.run(task="go")).messages[-1]
    assert isinstance(message, ToolCallSummaryMessage)
    remembered_last = (await agent.model_context.get_messages())[-1]
    assert isinstance(remembered_last, FunctionExecutionResultMessage)
    assert [one.without_images() for one in remembered_last.content] == message.results
    assert [len(one.images) for one in remembered_last.content] == [1]
    assert "mage" in message.content


async def test_a_handoff_among_calls_lets_the_others_run() -> None:
    agent, _ = assistant(calls("transfer_to_bob", "talk"), tools=[Talking()], handoffs=["bob"])
    assert (await said(agent))[1][2] == "done"


def charge(idempotency_key: str) -> str:
    """Charges."""
    return idempotency_key


@pytest.mark.parametrize(
    ("own", "given", "expected"),
    [
        (None, None, {}),
        ("tell", None, {"charge": "tell"}),
        ("idempotency_key", None, {"charge": "idempotency_key"}),
        ("tell", {"charge": "retry"}, {"charge": "retry"}),
        (None, {"of_a_workbench": "ask"}, {"of_a_workbench": "ask"}),
    ],
)
def test_what_is_done_about_unknown_outcomes(
    own: IfUnknown | None, given: dict[str, IfUnknown] | None, expected: dict[str, IfUnknown]
) -> None:
    assert outcomes_of([tool(if_unknown=own)(charge)], given) == expected


def test_a_dump_of_a_tool_says_what_to_do() -> None:
    config = FunctionTool(charge, if_unknown="ask").to_config()
    assert FunctionTool.from_config(config).if_unknown == "ask"
