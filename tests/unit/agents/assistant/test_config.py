"""Assistants as plain data and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard.agents import AssistantAgent, Handoff, TaskGuardrail
from callboard.foundation.component import ComponentConfigError, ComponentVersionError, NotDumpableError
from callboard.memory import ListMemory, MemoryContent
from callboard.memory.contexts import BufferedChatCompletionContext, UnboundedChatCompletionContext
from callboard.messages import StructuredMessage
from callboard.models import RecordedChatCompletionClient, ReplayChatCompletionClient
from callboard.tools import ApprovalRule, FunctionTool, StaticStreamWorkbench

from .talking import assistant, calls, said

HERE = __name__


def three() -> str:
    """Returns three."""
    return "3"


AUTOGENS: dict[str, Any] = {
    "provider": "autogen_agentchat.agents.AssistantAgent",
    "component_type": "agent",
    "version": 2,
    "component_version": 2,
    "description": "An agent that provides assistance with tool use.",
    "label": "AssistantAgent",
    "config": {
        "name": "ada",
        "model_client": {
            "provider": "autogen_ext.models.replay.ReplayChatCompletionClient",
            "component_type": "replay_chat_completion_client",
            "version": 1,
            "component_version": 1,
            "config": {
                "chat_completions": ['{"total": 4}'],
                "model_info": {
                    "vision": False,
                    "function_calling": True,
                    "json_output": True,
                    "family": "unknown",
                    "structured_output": True,
                },
            },
        },
        "workbench": [
            {
                "provider": "autogen_core.tools.StaticStreamWorkbench",
                "component_type": "workbench",
                "version": 1,
                "component_version": 1,
                "config": {"tools": [], "tool_overrides": {}},
            }
        ],
        "handoffs": [
            {
                "target": "bob",
                "description": "Handoff to bob.",
                "name": "transfer_to_bob",
                "message": "Transferred to bob, adopting the role of bob immediately.",
            }
        ],
        "model_context": {
            "provider": "autogen_core.model_context.BufferedChatCompletionContext",
            "component_type": "chat_completion_context",
            "version": 1,
            "component_version": 1,
            "config": {"buffer_size": 4},
        },
        "memory": [
            {
                "provider": "autogen_core.memory.ListMemory",
                "component_type": "memory",
                "version": 1,
                "component_version": 1,
                "config": {"name": "default_list_memory", "memory_contents": []},
            }
        ],
        "description": "adds",
        "system_message": "Add.",
        "model_client_stream": False,
        "reflect_on_tool_use": True,
        "tool_call_summary_format": "{result}",
        "max_tool_iterations": 2,
        "metadata": {"k": "v"},
        "structured_message_factory": {
            "provider": "autogen_agentchat.messages.StructuredMessageFactory",
            "component_type": "structured_message",
            "version": 1,
            "component_version": 1,
            "config": {
                "json_schema": {
                    "properties": {"total": {"title": "Total", "type": "integer"}},
                    "required": ["total"],
                    "title": "ConfigSum",
                    "type": "object",
                },
                "format_string": "{total}!",
                "content_model_name": "ConfigSum",
            },
        },
    },
}


async def test_a_dump_of_autogen_is_loaded() -> None:
    agent = AssistantAgent.load_component(AUTOGENS)
    assert (agent.name, agent.description) == ("ada", "adds")
    message = (await agent.run(task="2 + 2")).messages[-1]
    assert isinstance(message, StructuredMessage)
    assert message.to_text() == "4!"
    assert isinstance(agent.model_context, BufferedChatCompletionContext)


def test_a_dump_has_all_that_one_of_autogen_has() -> None:
    ours = json.loads(AssistantAgent.load_component(AUTOGENS).dump_component().model_dump_json())
    assert ours["provider"] == "callboard.agents.AssistantAgent"
    assert (ours["component_type"], ours["component_version"]) == ("agent", 2)
    theirs = AUTOGENS["config"]
    assert set(theirs) <= set(ours["config"])
    plain = [
        name
        for name, value in theirs.items()
        if not isinstance(value, dict | list) or name in ("handoffs", "metadata")
    ]
    assert {name: ours["config"][name] for name in plain} == {name: theirs[name] for name in plain}


async def test_everything_comes_back() -> None:
    model = ReplayChatCompletionClient([calls("three"), "it is 3"])
    agent = AssistantAgent(
        "ada",
        model,
        workbench=[StaticStreamWorkbench([FunctionTool(three, if_unknown="tell")])],
        handoffs=["bob", Handoff(target="eve", message="yours")],
        model_context=UnboundedChatCompletionContext(),
        description="adds",
        system_message=None,
        reflect_on_tool_use=True,
        tool_call_summary_format="{tool_name}",
        memory=[ListMemory(memory_contents=[MemoryContent(content="blue", mime_type="text/plain")])],
        metadata={"k": "v"},
        max_answer_refusals=5,
        if_unknown={"three": "ask"},
    )
    dump = agent.dump_component().model_dump_json()
    again = AssistantAgent.load_component(json.loads(dump), modules=[HERE])
    assert again.dump_component().model_dump_json() == dump
    assert [one[0] for one in await said(again)] == [
        "MemoryQueryEvent",
        "calls",
        "results",
        "TextMessage",
        "result",
    ]


def test_a_client_that_records_is_dumped_as_the_one_inside() -> None:
    agent = AssistantAgent("ada", RecordedChatCompletionClient(ReplayChatCompletionClient(["x"])))
    assert (
        agent.dump_component().config["model_client"]["provider"]
        == "callboard.models.ReplayChatCompletionClient"
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"guardrails": [TaskGuardrail(lambda _: None)]}, "guardrails are functions"),
        ({"handoffs": [Handoff(target="bob", input_filter=lambda given: given.along)]}, "transfer_to_bob"),
        ({"tools": [FunctionTool(lambda: "x", name="odd")]}, "top level of a module"),
    ],
)
def test_what_can_not_be_dumped(settings: dict[str, Any], reason: str) -> None:
    agent, _ = assistant("x", **settings)
    with pytest.raises(NotDumpableError, match=reason):
        agent.dump_component()


@pytest.mark.parametrize(
    ("change", "error"),
    [({"component_version": 1}, ComponentVersionError), ({"component_version": 3}, ComponentVersionError)],
)
def test_versions(change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        AssistantAgent.load_component({**AUTOGENS, **change})


def test_a_config_is_checked() -> None:
    config = {**AUTOGENS["config"], "max_tool_iterations": 0}
    with pytest.raises(ComponentConfigError, match="max_tool_iterations"):
        AssistantAgent.load_component({**AUTOGENS, "config": config})


def test_what_a_person_has_to_allow_is_in_the_dump() -> None:
    dump = assistant("x", tools=[three], needs_approval={"three": True})[0].dump_component()
    assert dump.config["needs_approval"] == {"three": True}
    loaded = AssistantAgent.load_component(dump, modules=[HERE])
    assert loaded.dump_component().config["needs_approval"] == {"three": True}
    for needs in (lambda arguments: True, ApprovalRule(by="ada")):
        with pytest.raises(NotDumpableError, match="needs_approval of three"):
            assistant("x", tools=[three], needs_approval={"three": needs})[0].dump_component()
