"""Agents, and tools made of them, as plain data and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

import pytest
from pydantic import BaseModel

from callboard import CancellationToken, ComponentModel
from callboard.agents import (
    AgentTool,
    ApprovalRequest,
    ApprovalResponse,
    BaseChatAgent,
    CodeExecutorAgent,
    MessageFilterAgent,
    MessageFilterConfig,
    PerSourceFilter,
    SocietyOfMindAgent,
    TeamTool,
    UserProxyAgent,
)
from callboard.code import CodeBlock, CodeExecutor, CodeResult
from callboard.foundation.component import (
    Component,
    ComponentLoader,
    ComponentNotAllowedError,
    NotDumpableError,
)
from callboard.memory.contexts import BufferedChatCompletionContext
from callboard.models import ReplayChatCompletionClient
from callboard.teams import RoundRobinGroupChat

from .talkers import Talker

HERE = __name__


class Nothing(BaseModel):
    pass


class Executor(CodeExecutor, Component[Nothing]):
    """Runs nothing."""

    component_config_schema = Nothing

    async def execute_code_blocks(
        self, code_blocks: Sequence[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        return CodeResult(0, "")

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def restart(self) -> None: ...

    def _to_config(self) -> Nothing:
        return Nothing()

    @classmethod
    def _from_config(cls, config: Nothing) -> Self:
        return cls()


def ask(prompt: str) -> str:
    return "asked"


def approve(request: ApprovalRequest) -> ApprovalResponse:
    return ApprovalResponse(approved=True, reason="")


def human(**settings: Any) -> UserProxyAgent:
    return UserProxyAgent("human", **settings)


def replay(*answers: str) -> ReplayChatCompletionClient:
    return ReplayChatCompletionClient(answers)


PARTS = [
    human(),
    human(description="the boss", input_func=ask),
    MessageFilterAgent(
        "ear",
        human(),
        MessageFilterConfig(per_source=[PerSourceFilter(source="a", position="last", count=1)]),
    ),
    SocietyOfMindAgent(
        "society",
        RoundRobinGroupChat([human()], max_turns=1),
        replay("The answer."),
        description="thinks",
        instruction="",
        response_prompt="Answer.",
        model_context=BufferedChatCompletionContext(buffer_size=3),
    ),
    CodeExecutorAgent("terminal", Executor(), approval_func=approve, sources=["writer"], system_message=None),
    CodeExecutorAgent(
        "coder",
        Executor(),
        approval_func=approve,
        model_client=replay("Done."),
        model_client_stream=True,
        max_retries_on_error=2,
        supported_languages=["lua"],
    ),
    AgentTool(human(), return_value_as_last_message=True),
    TeamTool(RoundRobinGroupChat([human()], max_turns=1), "ask_human", "Asks."),
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_a_part_becomes_plain_data_and_is_made_again(part: Any) -> None:
    dump = part.dump_component()
    again = ComponentLoader.load_component(
        json.loads(dump.model_dump_json()), type(part), modules=[HERE], providers=[Executor]
    )

    assert dump.component_type == ("tool" if "Tool" in type(part).__name__ else "agent")
    assert again.dump_component() == dump


async def test_what_was_made_works() -> None:
    society = SocietyOfMindAgent(
        "society", RoundRobinGroupChat([human(input_func=ask)], max_turns=1), replay("The answer.")
    )

    again = BaseChatAgent.load_component(society.dump_component(), modules=[HERE])

    messages = (await again.run(task="Go")).messages
    assert [message.to_text() for message in messages] == ["Go", "The answer."]


@pytest.mark.parametrize(
    "dump",
    [
        human(input_func=ask).dump_component(),
        CodeExecutorAgent("terminal", Executor(), approval_func=approve).dump_component(),
    ],
    ids=lambda dump: dump.label,
)
def test_functions_are_imported_only_where_that_is_allowed(dump: ComponentModel) -> None:
    with pytest.raises(ComponentNotAllowedError):
        BaseChatAgent.load_component(dump, providers=[Executor])


@pytest.mark.parametrize(
    "agent",
    [
        human(input_func=lambda prompt: "asked"),
        MessageFilterAgent("ear", Talker("writer"), MessageFilterConfig(per_source=[])),
        SocietyOfMindAgent("society", RoundRobinGroupChat([Talker("writer")]), replay()),
    ],
    ids=lambda agent: type(agent).__name__,
)
def test_what_can_not_be_written_down_says_so(agent: BaseChatAgent) -> None:
    with pytest.raises(NotDumpableError):
        agent.dump_component()


THEIRS = {
    "provider": "autogen_agentchat.agents.MessageFilterAgent",
    "component_type": "agent",
    "version": 1,
    "component_version": 1,
    "description": "A wrapper.",
    "label": "MessageFilterAgent",
    "config": {
        "name": "ear",
        "wrapped_agent": {
            "provider": "autogen_agentchat.agents.UserProxyAgent",
            "component_type": "agent",
            "version": 1,
            "component_version": 1,
            "description": None,
            "label": "UserProxyAgent",
            "config": {"name": "human", "description": "A human user"},
        },
        "filter": {"per_source": [{"source": "a", "position": "last", "count": 1}]},
    },
}


def test_autogens_dumps_are_understood() -> None:
    agent = BaseChatAgent.load_component(THEIRS)
    tool: AgentTool = ComponentLoader.load_component(
        {"provider": "autogen_agentchat.tools.AgentTool", "config": {"agent": THEIRS}}, AgentTool
    )

    assert isinstance(agent, MessageFilterAgent)
    assert agent.name == "ear"
    assert tool.name == "ear"
