"""What an assistant can be given, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from callboard.agents import AssistantAgent, Handoff
from callboard.agents.errors import AgentSettingError
from callboard.memory import ListMemory
from callboard.memory.contexts import BufferedChatCompletionContext
from callboard.messages import HandoffMessage, StructuredMessage, TextMessage, ToolCallSummaryMessage
from callboard.models import ModelFamily, ModelInfo, ReplayChatCompletionClient
from callboard.tools import FunctionTool, StaticWorkbench
from callboard.tools.errors import ToolDeclarationError

from .talking import assistant, calls, prompts, said

NO_CALLS: ModelInfo = {
    "vision": True,
    "function_calling": False,
    "json_output": True,
    "family": ModelFamily.UNKNOWN,
    "structured_output": True,
}


class SettingsOut(BaseModel):
    text: str


def add(a: int = 1) -> int:
    """Adds."""
    return a + 1


def double(a: int = 1) -> int:
    """Doubles."""
    return 2 * a


TOOL = FunctionTool(add)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"max_tool_iterations": 0}, AgentSettingError, "greater than or equal to 1, got 0"),
        (
            {"tools": [TOOL], "workbench": StaticWorkbench([])},
            AgentSettingError,
            "cannot be used with a workbench",
        ),
        ({"tools": [add, TOOL]}, ToolDeclarationError, "add"),
        ({"tools": ["add"]}, AgentSettingError, "Unsupported tool type"),
        ({"handoffs": [3]}, AgentSettingError, "Unsupported handoff type"),
        ({"handoffs": ["bob", "bob"]}, AgentSettingError, "Handoff names must be unique"),
        ({"handoffs": ["add"], "tools": [add]}, AgentSettingError, "unique from tool names"),
        (
            {"handoffs": [Handoff(target="bob", name="add")], "tools": [add]},
            AgentSettingError,
            "unique from tool names",
        ),
        ({"memory": ListMemory()}, AgentSettingError, "Expected a list of Memory"),
        ({"memory": ["x"]}, AgentSettingError, "Expected a list of Memory"),
        ({"guardrails": [print]}, AgentSettingError, "is no Guardrail"),
        (
            {"tools": [add], "if_unknown": {"add": "idempotency_key"}},
            AgentSettingError,
            "idempotency_key: str",
        ),
        (
            {"tools": [FunctionTool(add, if_unknown="idempotency_key")]},
            AgentSettingError,
            "idempotency_key: str",
        ),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        assistant(**settings)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"tools": [add]}, "does not support function calling."),
        ({"handoffs": ["bob"]}, "does not support function calling, which is needed for handoffs."),
    ],
)
def test_a_model_without_calls_takes_no_tools(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(AgentSettingError, match=text):
        AssistantAgent("ada", ReplayChatCompletionClient([], NO_CALLS), **settings)


def test_the_name_has_to_be_an_identifier() -> None:
    with pytest.raises(AgentSettingError):
        AssistantAgent("no name", ReplayChatCompletionClient([]))


@pytest.mark.parametrize(
    ("settings", "types"),
    [
        ({}, [TextMessage, ToolCallSummaryMessage, HandoffMessage]),
        (
            {"output_content_type": SettingsOut},
            [TextMessage, ToolCallSummaryMessage, HandoffMessage, StructuredMessage[SettingsOut]],
        ),
    ],
)
def test_what_it_says_is_known_beforehand(settings: dict[str, Any], types: list[type]) -> None:
    agent, _ = assistant(**settings)
    assert list(agent.produced_message_types) == types


def test_descriptions() -> None:
    agent, _ = assistant()
    assert agent.description == "An agent that provides assistance with ability to use tools."
    assert assistant(description="adds")[0].description == "adds"


@pytest.mark.parametrize("is_list", [False, True])
async def test_workbenches(is_list: bool) -> None:
    bench = StaticWorkbench([TOOL])
    benches = [bench, StaticWorkbench([FunctionTool(double)])]
    agent, model = assistant(
        calls("add"), "done", workbench=benches if is_list else bench, max_tool_iterations=2
    )
    assert ("results", "2") in await said(agent)
    assert [tool["name"] for tool in model.create_calls[0]["tools"]] == ["add", "double"][: 1 + is_list]


async def test_two_workbenches_with_one_name_of_a_tool_are_an_error() -> None:
    """AutoGen shows both to the model, and calls the first."""
    agent, _ = assistant("hi", workbench=[StaticWorkbench([TOOL]), StaticWorkbench([TOOL])])
    with pytest.raises(ToolDeclarationError):
        await agent.run(task="go")


async def test_the_context_is_what_the_model_sees() -> None:
    agent, model = assistant(
        "one", "two", model_context=BufferedChatCompletionContext(2), system_message=None
    )
    await agent.run(task="first")
    await agent.run(task="second")
    assert prompts(model)[1] == [("AssistantMessage", "one"), ("UserMessage", "second")]


def test_a_person_allows_calls_of_tools_that_there_are() -> None:
    assistant("x", tools=[add], handoffs=["bob"], needs_approval={"add": True, "transfer_to_bob": True})
    with pytest.raises(AgentSettingError, match=r"'ad'.*'add'"):
        assistant("x", tools=[add], needs_approval={"ad": True})
    # What a workbench has is not known before it is asked.
    assistant("x", workbench=StaticWorkbench([FunctionTool(add)]), needs_approval={"other": True})


def test_no_tools_need_no_model_that_can_call() -> None:
    assert AssistantAgent("a", ReplayChatCompletionClient([], NO_CALLS), tools=[]).name == "a"
