"""Tools elsewhere, as the caller sees them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from callboard import AgentId, App, CancellationToken, MessageContext, RedisAgentRuntime, RoutedAgent, rpc
from callboard.tools import (
    RemoteTool,
    StaticWorkbench,
    ToolAgent,
    ToolCallRequest,
    ToolResult,
    tool,
    tool_context,
)
from callboard.tools.remote import SLOTS
from callboard.tools.workbench import texts


@tool
async def square(number: int) -> int:
    """Squares a number."""
    return number * number


class FakeRuntime:
    """Answers requests and keeps them."""

    def __init__(self) -> None:
        self.sent: list[tuple[ToolCallRequest, AgentId, dict[str, Any]]] = []
        self.known: set[type[Any]] = set()

    def add_message_types(self, types: Any) -> None:
        self.known.update(types)

    async def send_message(self, message: ToolCallRequest, recipient: AgentId, **options: Any) -> ToolResult:
        self.sent.append((message, recipient, options))
        return ToolResult(name=message.name, result=list(texts("4")))


async def test_a_call_is_a_request_to_the_agent_type() -> None:
    runtime: Any = FakeRuntime()
    remote = RemoteTool(square.schema, "tools", runtime=runtime, timeout=5)
    assert (remote.name, remote.description, remote.schema) == ("square", "Squares a number.", square.schema)
    result = await remote.run_json({"number": 2}, CancellationToken(), "call_1")
    assert remote.return_value_as_string(result) == "4"
    ((request, recipient, options),) = runtime.sent
    assert request == ToolCallRequest(name="square", arguments={"number": 2}, call_id="call_1")
    assert recipient.type == "tools"
    assert (options["timeout"], options["sender"]) == (5, None)
    assert sorted(cls.__name__ for cls in runtime.known) == ["ToolCallRequest", "ToolResult"]
    assert remote.args_type().model_validate({"number": 2}).model_extra == {"number": 2}
    assert (remote.return_type(), remote.state_type()) == (ToolResult, None)
    await remote.load_state_json(await remote.save_state_json())


async def test_the_same_call_goes_to_the_same_agent_and_others_are_spread() -> None:
    runtime: Any = FakeRuntime()
    remote = RemoteTool(square.schema, "tools", runtime=runtime)
    for call_id in ("a", "a", None, None, *map(str, range(200))):
        await remote.run_json({"number": 2}, CancellationToken(), call_id)
    keys = [recipient.key for _, recipient, _ in runtime.sent]
    assert keys[0] == keys[1]
    assert keys[2] == keys[3]
    assert len(set(keys)) > 100
    assert all(0 <= int(key) < SLOTS for key in keys)


async def test_without_a_runtime_it_says_what_to_do() -> None:
    result = await StaticWorkbench([square], on="tools").call_tool("square", {"number": 2})
    assert result.is_error
    assert "give runtime=" in result.to_text()
    runtime: Any = FakeRuntime()
    with tool_context(runtime=runtime):
        assert (
            await StaticWorkbench([square], on="tools").call_tool("square", {"number": 2})
        ).to_text() == "4"


class Caller(RoutedAgent):
    """Makes its workbench in its constructor, where the runtime is known."""

    def __init__(self) -> None:
        super().__init__("calls")
        self.workbench = StaticWorkbench([square], on="tools")

    @rpc
    async def on_number(self, message: int, ctx: MessageContext) -> str:
        result = await self.workbench.call_tool(
            "square", {"number": message}, ctx.cancellation_token, "call_1"
        )
        return result.to_text()


async def test_an_agent_calls_tools_on_the_bus() -> None:
    app = App("remote-tools")
    ToolAgent.declare(app, "tools", [square])
    app.agent("caller")(Caller)
    async with app.running("memory://remote-tools") as runtime:
        assert await runtime.send_message(7, AgentId("caller", "a")) == "49"


async def test_cancelling_ends_a_tool_of_the_same_process() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    app = App("cancelled-tools")
    ToolAgent.declare(app, "tools", [endless])
    async with app.running("memory://cancelled-tools") as runtime:
        token = CancellationToken()
        workbench = StaticWorkbench([endless], on="tools", runtime=runtime)
        calling = asyncio.ensure_future(workbench.call_tool("endless", None, token))
        await asyncio.wait_for(begun.wait(), 10)
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await asyncio.wait_for(ended.wait(), 10)


async def test_a_runtime_without_the_tools_says_so() -> None:
    async with RedisAgentRuntime("memory://no-tools") as runtime:
        runtime.start()
        result = await StaticWorkbench([square], on="tools", runtime=runtime).call_tool(
            "square", {"number": 2}
        )
        assert "UndeliverableException" in result.to_text()
