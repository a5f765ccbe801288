"""The agent type that runs tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from callboard import (
    AgentId,
    App,
    DefaultInterventionHandler,
    MessageContext,
    RedisAgentRuntime,
    UndeliverableException,
    asking_by,
)
from callboard.errors import DeclarationError, DuplicateAgentTypeError
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    Image,
    LLMMessage,
    UserMessage,
)
from callboard.models import ReplayChatCompletionClient
from callboard.tools import (
    DynamicWorkbench,
    FunctionTool,
    StaticWorkbench,
    ToolAgent,
    ToolCallRequest,
    ToolResult,
    run_tools,
    tool,
    tool_agent_caller_loop,
)
from callboard.tools.errors import CallRefusedError, ToolDeclarationError

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


@tool(needs_approval=True)
async def wipe() -> str:
    """Wipes."""
    return "wiped"


TOOLS = [square, fail, look, wipe]


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


async def test_what_a_person_has_to_allow_is_called_by_those_only_who_have_asked(
    runtime: RedisAgentRuntime,
) -> None:
    assert "nobody was asked" in (await ask(runtime, "{}", "wipe")).content
    answers = iter(["no", "yes"])
    bench = StaticWorkbench([wipe], on="tools", runtime=runtime)
    with asking_by(lambda question: next(answers)):
        calls = [FunctionCall("1", "{}", "wipe")]
        refused, wiped = [await run_tools(calls, bench) for _ in range(2)]
    assert "has not allowed it" in refused[0].content
    assert wiped[0].content == "wiped"


async def test_a_request_keeps_images(runtime: RedisAgentRuntime) -> None:
    request = ToolCallRequest(name="look", arguments={})
    answer = await runtime.send_message(request, AgentId("tools", "a"))
    assert isinstance(answer, ToolResult)
    assert [part.type for part in answer.result] == ["TextResultContent", "ImageResultContent"]


def test_what_can_not_be_declared() -> None:
    app = App("refused")
    with pytest.raises(ToolDeclarationError):
        ToolAgent.declare(app, "tools", [square, square])
    with pytest.raises(DeclarationError):
        ToolAgent.declare(app, "tools", [square], max_runtimes=3)  # type: ignore[call-arg]
    ToolAgent.declare(app, "tools", DynamicWorkbench([square]))
    with pytest.raises(DuplicateAgentTypeError):
        ToolAgent.declare(app, "tools", [square])


def test_it_has_the_workbench_that_it_was_given() -> None:
    workbench = DynamicWorkbench([square])
    assert ToolAgent("runs tools", workbench).workbench is workbench


class TestCallerLoop:
    async def loop(self, runtime: RedisAgentRuntime, agent: str, *answers: Any) -> list[LLMMessage]:
        client = ReplayChatCompletionClient(answers)
        question: list[LLMMessage] = [UserMessage(content="?", source="user")]
        new = await tool_agent_caller_loop(
            runtime, AgentId(agent, "a"), client, question, TOOLS, caller_source="writer"
        )
        asked = client.create_calls[-1]["messages"]
        assert list(asked) == [*question, *new[:-1]]
        return new

    async def test_it_ends_with_an_answer(self, runtime: RedisAgentRuntime) -> None:
        calls = [
            FunctionCall(id="1", name="square", arguments='{"number": 4}'),
            FunctionCall(id="2", name="fail", arguments="{}"),
        ]
        asks, results, answer = await self.loop(runtime, "tools", calls, "16 it is")
        assert asks == AssistantMessage(content=calls, source="writer")
        assert isinstance(results, FunctionExecutionResultMessage)
        assert [(one.call_id, one.is_error) for one in results.content] == [("1", False), ("2", True)]
        assert answer == AssistantMessage(content="16 it is", source="writer")

    async def test_an_answer_without_calls_is_the_end(self, runtime: RedisAgentRuntime) -> None:
        assert [one.content for one in await self.loop(runtime, "tools", [])] == [[]]

    async def test_there_has_to_be_an_agent(self, runtime: RedisAgentRuntime) -> None:
        calls = [FunctionCall(id="1", name="square", arguments="{}")]
        with pytest.raises(UndeliverableException):
            await self.loop(runtime, "nobody", calls, "never")


class Denying(DefaultInterventionHandler):
    async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
        if isinstance(message, FunctionCall):
            raise CallRefusedError(message.name, "the user has not allowed it")
        return message


async def test_what_an_intervention_handler_refuses_is_a_result_that_the_model_reads() -> None:
    def pay(amount: int) -> str:
        return f"paid {amount}"

    tool = FunctionTool(pay, "Pays.")
    model = ReplayChatCompletionClient([[FunctionCall("1", '{"amount": 1}', "pay")], "I may not."])
    async with RedisAgentRuntime("memory://denied", intervention_handlers=[Denying()]) as runtime:
        await ToolAgent.register(runtime, "tools", lambda: ToolAgent("Runs tools.", [tool]))
        runtime.start()
        task = [UserMessage(content="Pay.", source="user")]
        _, results, said = await tool_agent_caller_loop(
            runtime, AgentId("tools", "default"), model, task, [tool.schema]
        )
    assert isinstance(results, FunctionExecutionResultMessage)
    (result,) = results.content
    assert (result.call_id, result.name, result.is_error) == ("1", "pay", True)
    assert "the user has not allowed it" in result.content
    assert said.content == "I may not."
