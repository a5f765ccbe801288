"""Agents and teams as tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from callboard import CancellationToken
from callboard.agents import AgentTool, Response, TaskResult, TeamTool
from callboard.messages import BaseChatMessage, TextMessage, ThoughtEvent
from callboard.teams import RoundRobinGroupChat
from callboard.tools import StaticStreamWorkbench

from .talkers import Talker


async def run(tool: Any, task: str = "Go") -> str:
    result = await tool.run_json({"task": task}, CancellationToken())
    return str(tool.return_value_as_string(result))


def test_what_a_model_reads() -> None:
    tool = AgentTool(Talker("writer", "prose"))

    assert (tool.name, tool.description) == ("writer", "says prose")
    assert tool.schema.get("parameters", {}).get("required") == ["task"]
    assert tool.schema.get("strict") is True


@pytest.mark.parametrize(("is_last_only", "text"), [(True, "said 1"), (False, "a: said 1\n\nb: said 1")])
async def test_what_a_team_says_is_the_result(is_last_only: bool, text: str) -> None:
    team = RoundRobinGroupChat([Talker("a"), Talker("b")], max_turns=2)

    assert await run(TeamTool(team, "both", "says it twice", is_last_only)) == text


async def test_messages_are_shown_on_the_way() -> None:
    workbench = StaticStreamWorkbench([AgentTool(Talker("writer"))])

    items = [item async for item in workbench.call_tool_stream("writer", {"task": "Go"}, CancellationToken())]

    assert [getattr(item, "source", "") for item in items[:2]] == ["user", "writer"]
    assert items[-1].to_text() == "writer: said 1"


async def test_an_agent_goes_on_with_its_conversation_from_call_to_call() -> None:
    tool = AgentTool(Talker("writer"))

    assert await run(tool) == "writer: said 1"
    assert await run(tool) == "writer: said 2"


async def test_a_second_call_waits_for_the_first() -> None:
    class Slow(Talker):
        async def on_messages(
            self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
        ) -> Response:
            entered.append(self.count)
            await asyncio.sleep(0)
            response = await super().on_messages(messages, cancellation_token)
            entered.append(self.count)
            return response

    entered: list[int] = []
    tool = AgentTool(Slow("writer"))

    assert list(await asyncio.gather(run(tool), run(tool))) == ["writer: said 1", "writer: said 2"]
    assert entered == [0, 1, 1, 2]


def test_a_last_message_that_nobody_is_told_can_not_be_returned() -> None:
    tool = AgentTool(Talker("writer"), return_value_as_last_message=True)

    for messages in ([], [TextMessage(content="a", source="b"), ThoughtEvent(content="hm", source="b")]):
        with pytest.raises(ValueError, match="The last message is not a BaseChatMessage"):
            tool.return_value_as_string(TaskResult(messages=messages))


async def test_the_state_is_that_of_the_agent() -> None:
    first, second = AgentTool(Talker("writer")), AgentTool(Talker("writer"))
    await run(first)

    await second.load_state_json(await first.save_state_json())

    assert await run(second) == "writer: said 2"
