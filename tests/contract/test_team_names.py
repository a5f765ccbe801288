"""Teams of one name on one runtime: nobody speaks in somebody else's conversation, or for another team."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from callboard.agents import AssistantAgent
from callboard.models import ReplayChatCompletionClient
from callboard.runs import a_run
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import (
    MagenticOneGroupChat,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
    TeamDeclarationError,
)
from callboard.teams.group_chat import BaseGroupChat
from tests.helpers.chat import Echo, texts
from tests.helpers.runtimes import Runtimes


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


def says(name: str, *answers: str) -> AssistantAgent:
    return AssistantAgent(name, ReplayChatCompletionClient(list(answers)))


def round_robin(runtime: RedisAgentRuntime, **options: Any) -> BaseGroupChat:
    return RoundRobinGroupChat([Echo("a"), Echo("b")], max_turns=1, runtime=runtime, **options)


def selector(runtime: RedisAgentRuntime, **options: Any) -> BaseGroupChat:
    model = ReplayChatCompletionClient(["a"])
    return SelectorGroupChat([Echo("a"), Echo("b")], model, max_turns=1, runtime=runtime, **options)


def swarm(runtime: RedisAgentRuntime, **options: Any) -> BaseGroupChat:
    return Swarm([says("a", "one"), says("b", "two")], max_turns=1, runtime=runtime, **options)


def magentic(runtime: RedisAgentRuntime, **options: Any) -> BaseGroupChat:
    return MagenticOneGroupChat([Echo("a")], ReplayChatCompletionClient(["x"]), runtime=runtime, **options)


@pytest.mark.parametrize("make", [round_robin, selector, swarm, magentic])
async def test_a_second_team_without_a_name_does_not_take_the_place_of_the_first(
    runtime: RedisAgentRuntime, make: Callable[..., BaseGroupChat]
) -> None:
    first, second = make(runtime), make(runtime)
    await first.save_state()
    with pytest.raises(TeamDeclarationError, match="a name of its own"):
        await second.run(task="go")
    named = make(runtime, name="other")
    assert (await named.save_state())["agent_states"]


@pytest.mark.parametrize(
    "other",
    [
        lambda: RoundRobinGroupChat([Echo("a")], name="poets", max_turns=1),
        lambda: RoundRobinGroupChat([says("a", "1"), Echo("b")], name="poets", max_turns=1),
        lambda: RoundRobinGroupChat([Echo("a"), Echo("b")], name="poets", max_turns=2),
        lambda: SelectorGroupChat(
            [Echo("a"), Echo("b")], ReplayChatCompletionClient(["a"]), name="poets", max_turns=1
        ),
    ],
    ids=["members", "class of a member", "max_turns", "kind"],
)
async def test_another_team_of_the_same_name_is_refused(
    runtime: RedisAgentRuntime, other: Callable[[], BaseGroupChat]
) -> None:
    await round_robin(runtime, name="poets").run(task="go")
    second = other()
    second._runtime = runtime
    with pytest.raises(TeamDeclarationError, match="'poets'"):
        await second.run(task="go")


async def test_a_team_that_is_made_anew_for_each_request_is_the_same_team(runtime: RedisAgentRuntime) -> None:
    for number in range(3):
        team = RoundRobinGroupChat(
            [says("a", "one", "one", "one"), Echo("b")],
            name="desk",
            max_turns=1,
            runtime=runtime,
            conversation=f"customer{number}",
        )
        assert texts(await team.run(task="go")) == ["go", "one"]


async def test_run_does_not_let_an_agent_speak_for_another_one_of_its_name(
    runtime: RedisAgentRuntime,
) -> None:
    first, second = says("a", "one"), says("a", "two")
    assert (await (await a_run(first, message="go", runtime=runtime)).result()).messages[
        -1
    ].to_text() == "one"
    with pytest.raises(TeamDeclarationError, match="the member 'a' is another one"):
        await a_run(second, message="go", runtime=runtime)
    response = await a_run(second, message="go", runtime=runtime, name="second")
    assert (await response.result()).messages[-1].to_text() == "two"
