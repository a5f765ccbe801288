"""Runs of teams on the bus as cassettes: recorded with their commits, replayed without a network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from callboard.agents import AssistantAgent
from callboard.memory.llm_messages import FunctionCall, LLMMessage
from callboard.models import ReplayChatCompletionClient
from callboard.models.errors import ModelConnectionError
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import BaseGroupChat, RoundRobinGroupChat, SelectorGroupChat
from callboard.teams.group_chat import host
from callboard.testing import Cassette, CassetteDifferenceError, CassetteError, replay
from tests.helpers.runtimes import Runtimes

calls: list[str] = []


def weather(city: str) -> str:
    """The weather."""
    calls.append(city)
    return f"{city}: rain {len(calls)}"


def a_team(model: Any, system: str = "Be brief.", **options: Any) -> BaseGroupChat:
    """A selector, an assistant with a tool, and a nested team."""
    inner = RoundRobinGroupChat([AssistantAgent("x", model("x"))], name="inner", max_turns=1)
    ann = AssistantAgent(
        "ann",
        model("ann"),
        system_message=system,
        tools=[weather],
        reflect_on_tool_use=True,
        model_client_stream=True,
    )
    return SelectorGroupChat(
        [ann, inner], model("chooser"), selector_prompt="who", name="poets", **{"max_turns": 2, **options}
    )


def live(name: str) -> ReplayChatCompletionClient:
    """Models that answer."""
    script: dict[str, Sequence[Any]] = {
        "ann": [[FunctionCall(id="1", name="weather", arguments='{"city": "Oslo"}')], "It rains."],
        "x": ["Indeed."],
        "chooser": ["ann", "inner"],
    }
    return ReplayChatCompletionClient(script[name])


def dead(name: str) -> ReplayChatCompletionClient:
    """Models that nobody reaches."""

    def fail(messages: Sequence[LLMMessage]) -> str:
        raise ModelConnectionError("replay", "no network")

    return ReplayChatCompletionClient(default=fail)


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


async def recorded(runtime: RedisAgentRuntime) -> Cassette:
    team = a_team(live, runtime=runtime)
    await host(team, runtime, team.name)
    sea = team.on(runtime, "sea")
    await sea.run(task="The weather?", run_id="r", record=True)
    return await sea.export("r")


async def test_a_recorded_run_is_replayed_without_models_and_tools(
    runtimes: Runtimes, runtime: RedisAgentRuntime, tmp_path: Path
) -> None:
    cassette = await recorded(runtime)
    assert [(take.agent, take.kind) for take in cassette.takes] == [
        ("poets", "model"),
        ("poets.ann", "model"),
        ("poets.ann", "tool"),
        ("poets.ann", "model"),
        ("poets.inner.x", "model"),
    ]
    made = len(calls)
    await runtime.stop()
    cassette.save(tmp_path / "run.jsonl")
    with replay(Cassette.load(tmp_path / "run.jsonl")) as tape:
        tape.check(await a_team(dead).run(task=tape.cassette.task))
    with replay(cassette) as tape:
        other = runtimes.new()
        other.start()
        tape.check(await a_team(dead, runtime=other, conversation="test").run(task=tape.cassette.task))
    assert len(calls) == made


async def test_the_first_difference_is_named(runtime: RedisAgentRuntime) -> None:
    cassette = await recorded(runtime)
    with pytest.raises(CassetteDifferenceError) as found, replay(cassette):
        await a_team(dead, "Be long.").run(task=cassette.task)
    assert (found.value.agent, found.value.what) == ("poets.ann", "request 1 to its model")
    assert "message 1 of 2, a SystemMessage, is 'Be long.', and was 'Be brief.'" in found.value.difference
    with pytest.raises(CassetteDifferenceError, match="asked 1 times more"), replay(cassette):
        await a_team(dead, max_turns=1).run(task=cassette.task)
    with replay(cassette) as tape:
        result = await a_team(dead).run(task=cassette.task)
        changed = [message.model_copy(update={"content": "?"}) for message in result.messages]
        with pytest.raises(CassetteDifferenceError, match="message 1: 'user' says"):
            tape.check(result.model_copy(update={"messages": changed}))


async def test_a_cassette_that_nobody_asked_says_what_is_usually_missing(runtime: RedisAgentRuntime) -> None:
    cassette = await recorded(runtime)
    with (
        pytest.raises(CassetteDifferenceError, match="the runtime starts inside of `with replay"),
        replay(cassette),
    ):
        await runtime.stop_when_idle()


async def test_a_run_that_was_not_recorded_has_no_cassette(runtime: RedisAgentRuntime) -> None:
    team = a_team(live, runtime=runtime)
    await host(team, runtime, team.name)
    sea = team.on(runtime, "sea")
    await sea.run(task="The weather?", run_id="r")
    with pytest.raises(CassetteError, match="record=True"):
        await sea.export("r")
    with pytest.raises(CassetteError, match="no cassette"):
        Cassette.parse('{"cassette": 2}')
