"""Whose memories the agents of a team read and write is a function of the conversation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from callboard import App, FunctionCall
from callboard.agents import AssistantAgent
from callboard.memory import HashingEmbedder, MemoryContent, MemoryMimeType
from callboard.memory.errors import MemoryValueError
from callboard.memory_service import MemoryServiceClient, memory_service
from callboard.messages import MemoryQueryEvent, TextMessage
from callboard.models import LLMMessage, ReplayChatCompletionClient
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RoundRobinGroupChat
from callboard.teams.errors import TeamRunError
from callboard.testing import Harness


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    async with Harness() as made:
        yield made


def customer(conversation: str) -> str:
    return f"customer/{conversation.partition('-')[0]}"


def noting(messages: Sequence[LLMMessage]) -> list[FunctionCall]:
    """An answer that notes the task."""
    task = next(one.content for one in reversed(messages) if one.type == "UserMessage")
    return [FunctionCall(id="1", name="note", arguments=json.dumps({"what": task}))]


class Desk:
    """A team of one clerk, who recalls and notes what customers say."""

    def __init__(self, memory: MemoryServiceClient) -> None:
        self.app = App("desk")
        memory_service(self.app, embedder=HashingEmbedder())

        async def note(what: str) -> str:
            """Remember something."""
            await memory.add(MemoryContent(content=what, mime_type=MemoryMimeType.TEXT))
            return "noted"

        model = ReplayChatCompletionClient(default=noting)
        clerk = AssistantAgent("clerk", model, memory=[memory], tools=[note])
        self.team = self.app.team(RoundRobinGroupChat([clerk], name="help", max_turns=1))

    async def hears(self, runtime: RedisAgentRuntime, conversation: str, task: str) -> list[str]:
        """What the clerk recalls when a customer says something, which it notes."""
        result = await self.team.on(runtime, conversation).run(task=task)
        events = [one for one in result.messages if isinstance(one, MemoryQueryEvent)]
        return sorted(str(found.content) for event in events for found in event.content)


@pytest.mark.parametrize(
    ("whose", "shared", "name"), [(customer, ["tea please"], "customer/ada"), (None, [], "help.clerk/ada-1")]
)
async def test_a_conversation_recalls_what_its_memory_has(
    harness: Harness, whose: Any, shared: list[str], name: str
) -> None:
    desk = Desk(MemoryServiceClient(agent=whose, in_order=True))
    runtime = await harness.run(desk.app)

    assert await desk.hears(runtime, "ada-1", "tea please") == []
    assert await desk.hears(runtime, "bob-1", "coffee please") == []
    assert await desk.hears(runtime, "ada-2", "what now") == shared
    assert await desk.hears(runtime, "ada-1", "and then") == (
        ["tea please", "what now"] if shared else ["tea please"]
    )
    assert "tea please" in [
        one.text for one in (await MemoryServiceClient(runtime, name).query("tea")).results
    ]


async def test_an_agent_with_an_owner_has_the_memory_of_its_key(harness: Harness) -> None:
    runtime = harness.runtime()
    assert MemoryServiceClient(runtime, customer).agent == "customer/default"


async def test_without_an_owner_it_is_for_teams_on_the_bus(harness: Harness) -> None:
    memory = MemoryServiceClient(agent=customer)
    with pytest.raises(MemoryValueError, match="unless agents of a team on the bus use it"):
        await memory.query("tea")
    team = Desk(memory).team
    with pytest.raises(TeamRunError, match="unless agents of a team on the bus use it"):
        await team.run(task=TextMessage(content="tea", source="user"))
