"""The agent type that runs tools."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from callboard import AgentId, App, MessageContext, RedisAgentRuntime
from callboard.errors import AgentDeclarationError, DuplicateAgentTypeError
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult, Image
from callboard.tools import DynamicWorkbench, ToolAgent, ToolCallRequest, ToolResult, tool
from callboard.tools.errors import DuplicateToolError

from .test_results import PIXEL


@tool
async def square(number: int = 3) -> int:
    """Squares a number."""
    return number * number


@tool
async def fail() -> str:
    """Fails."""
    raise KeyError("x")


@tool
async def look(ctx: MessageContext) -> list[object]:
    """Looks."""
    return [ctx.message_id, Image.from_bytes(PIXEL)]


TOOLS = [square, fail, look]


@pytest.fixture
async def runtime() -> AsyncIterator[RedisAgentRuntime]:
    app = App("tool-agent")
    declared = ToolAgent.declare(app, "tools", TOOLS, timeout=10, max_runtime=20, concurrency=4, processes=2)
    assert (declared.processes, declared.settings.concurrency) == (2, 4)
    async with app.running("memory://tool-agent") as running:
        yield running


async def ask(runtime: RedisAgentRuntime, arguments: str, name: str = "square") -> FunctionExecutionResult:
    call = FunctionCall(id="call_1", arguments=arguments, name=name)
    answer: FunctionExecutionResult = await runtime.send_message(call, AgentId("tools", "a"))
    assert (answer.call_id, answer.name) == ("call_1", name)
    return answer


async def test_a_function_call_gets_an_execution_result(runtime: RedisAgentRuntime) -> None:
    answer = await ask(runtime, '{"number": 4}')
    assert (answer.content, answer.is_error) == ("16", False)
    assert (await ask(runtime, "  ")).content == "9"
    looked = await ask(runtime, "{}", "look")
    assert looked.content.endswith("\n[image]")


@pytest.mark.parametrize(
    ("arguments", "name", "text"),
    [
        ("{", "square", "they are not valid JSON"),
        ("[" * 100_000, "square", "they are not valid JSON"),
        ("[1]", "square", "one JSON object, not list"),
        ('{"nummer": 1}', "square", "Did you mean 'number'?"),
        ("{}", "sqare", "Tool sqare not found. Did you mean 'square'?"),
        ("{}", "fail", "KeyError: 'x'"),
    ],
)
async def test_whatever_goes_wrong_is_an_answer(
    runtime: RedisAgentRuntime, arguments: str, name: str, text: str
) -> None:
    answer = await ask(runtime, arguments, name)
    assert answer.is_error
    assert text in answer.content


async def test_a_request_keeps_images(runtime: RedisAgentRuntime) -> None:
    request = ToolCallRequest(name="look", arguments={})
    answer = await runtime.send_message(request, AgentId("tools", "a"))
    assert isinstance(answer, ToolResult)
    assert [part.type for part in answer.result] == ["TextResultContent", "ImageResultContent"]


def test_what_can_not_be_declared() -> None:
    app = App("refused")
    with pytest.raises(DuplicateToolError):
        ToolAgent.declare(app, "tools", [square, square])
    with pytest.raises(AgentDeclarationError):
        ToolAgent.declare(app, "tools", [square], max_runtimes=3)  # type: ignore[call-arg]
    ToolAgent.declare(app, "tools", DynamicWorkbench([square]))
    with pytest.raises(DuplicateAgentTypeError):
        ToolAgent.declare(app, "tools", [square])


def test_it_has_the_workbench_that_it_was_given() -> None:
    workbench = DynamicWorkbench([square])
    assert ToolAgent("runs tools", workbench).workbench is workbench
