"""A state that is saved while a team speaks is one moment: what a member remembers that it said, the thread has."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from callboard.agents import AssistantAgent
from callboard.models import ReplayChatCompletionClient
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RoundRobinGroupChat
from tests.helpers.chat import texts
from tests.helpers.runtimes import Runtimes

TURNS = 12


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


def member(name: str) -> AssistantAgent:
    """Says how much it has read: one that forgot something, or heard it twice, says another number."""
    return AssistantAgent(
        name, ReplayChatCompletionClient(default=lambda read: f"{name} has read {len(read)}")
    )


def flat(**options: Any) -> RoundRobinGroupChat:
    return RoundRobinGroupChat([member("a"), member("b")], name="poets", max_turns=TURNS, **options)


def nested(**options: Any) -> RoundRobinGroupChat:
    inner = RoundRobinGroupChat([member("x"), member("y")], name="inner", max_turns=3)
    return RoundRobinGroupChat([inner, member("b")], name="outer", max_turns=TURNS // 2, **options)


def said_in(state: Mapping[str, Any], manager: str) -> dict[str, list[str]]:
    """What each has said according to the thread of its team, and to its own memory."""
    states = dict(state["agent_states"])
    thread = states.pop(manager)["message_thread"]
    torn = {}
    for name, saved in states.items():
        own = saved["agent_state"]
        if "agent_states" in own:
            torn.update(said_in(own, "RoundRobinGroupChatManager"))
            continue
        said = [message["content"] for message in thread if message["source"] == name]
        context = own.get("llm_context", {}).get("messages", [])
        remembered = [one["content"] for one in context if one["type"] == "AssistantMessage"]
        if said != remembered:
            torn[name] = [*said, "<>", *remembered]
    return torn


@pytest.mark.parametrize("make", [flat, nested])
async def test_no_state_of_a_team_that_speaks_is_torn(runtime: RedisAgentRuntime, make: Any) -> None:
    team = make(runtime=runtime)
    running = asyncio.ensure_future(team.run(task="go"))
    states = []
    while not running.done():
        states.append(await team.save_state())
    await running
    assert [torn for state in states if (torn := said_in(state, "RoundRobinGroupChatManager"))] == []
    assert len(states) > 2


async def test_a_team_that_is_loaded_goes_on_from_that_moment(runtime: RedisAgentRuntime) -> None:
    team = flat(runtime=runtime)
    running = asyncio.ensure_future(team.run(task="go"))
    states = []
    while not running.done():
        states.append(await team.save_state())
    whole = texts(await running)
    for number, state in enumerate(states[:: max(1, len(states) // 5)]):
        thread = state["agent_states"]["RoundRobinGroupChatManager"]["message_thread"]
        if not thread:
            continue
        other = team.on(runtime, f"copy{number}")
        await other.load_state(state)
        rest = texts(await other.run())
        assert [*(message["content"] for message in thread), *rest][: len(whole)] == whole
