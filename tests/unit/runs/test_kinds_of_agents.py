"""Who speaks in a run of agents that are no ConversableAgents, and of teams; and handoffs to nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from callboard.agents import AssistantAgent, MessageFilterAgent, MessageFilterConfig, UserProxyAgent
from callboard.agents.base import ChatAgent
from callboard.conditions import MaxMessageTermination
from callboard.groupchat import ConversableAgent
from callboard.models import ReplayChatCompletionClient
from callboard.runs import a_run
from callboard.teams import BaseGroupChat, RoundRobinGroupChat, SelectorGroupChat, TeamRunError
from tests.helpers.run_agents import call, chatterer, speaker


def assistant(name: str, *answers: Any, **options: Any) -> AssistantAgent:
    return AssistantAgent(
        name, ReplayChatCompletionClient(list(answers), default=f"{name} speaks"), **options
    )


def person(name: str) -> UserProxyAgent:
    return UserProxyAgent(name, input_func=lambda prompt: f"{name} speaks")


def filtered(name: str) -> MessageFilterAgent:
    return MessageFilterAgent(name, assistant("inner"), MessageFilterConfig(per_source=[]))


KINDS: list[Callable[[str], ChatAgent]] = [assistant, person, chatterer, filtered]


async def speakers(*agents: Any, **options: Any) -> list[str]:
    response = await a_run(*agents, message="Hi", **options)
    return [message["sender"] for message in await response.messages]


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
async def test_two_of_any_kind_take_turns(
    first: Callable[[str], ChatAgent], second: Callable[[str], ChatAgent]
) -> None:
    said = await speakers(first("a"), second("b"), max_turns=4)
    assert len(set(said[1::2])) == len(set(said[2::2])) == 1
    assert len(said) == 5


async def test_an_assistant_with_handoffs_chooses_who_goes_on() -> None:
    agents = assistant("a", call("transfer_to_c"), handoffs=["c"]), assistant("b"), assistant("c")
    assert await speakers(*agents, max_turns=3) == ["user", "c", "c"]


def endless(kind: str) -> BaseGroupChat:
    members = [assistant("a"), assistant("b")]
    if kind == "round robin":
        return RoundRobinGroupChat(members)
    chooser = ReplayChatCompletionClient(["a", "b", "a"])
    return SelectorGroupChat(members, chooser)


@pytest.mark.parametrize("kind", ["round robin", "selector"])
@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"max_turns": 3}, ["user", "a", "b", "a"]),
        ({"termination": MaxMessageTermination(4)}, ["user", "a", "b", "a"]),
        ({"is_termination_message": lambda text: text == "b speaks"}, ["user", "a", "b"]),
    ],
    ids=["max_turns", "termination", "is_termination_message"],
)
async def test_a_team_without_an_end_of_its_own_is_ended_by_the_limits_of_the_run(
    kind: str, limit: dict[str, Any], said: list[str]
) -> None:
    assert await speakers(endless(kind), **limit) == said


async def test_the_limits_of_the_team_hold_as_well() -> None:
    team = RoundRobinGroupChat([assistant("a"), assistant("b")], max_turns=2)
    assert await speakers(team, max_turns=3) == ["user", "a", "b"]
    team = RoundRobinGroupChat([assistant("a")], termination_condition=MaxMessageTermination(3))
    assert await speakers(team, termination=MaxMessageTermination(9)) == ["user", "a", "a"]


def hands_to(name: str) -> Callable[[], ConversableAgent]:
    def transfer() -> ConversableAgent:
        """Hands over."""
        return chatterer(name)

    return transfer


async def test_a_function_hands_over_to_an_agent_that_the_run_has_whoever_would_be_next() -> None:
    a = speaker("a", call("transfer"), "a speaks")
    a.register_function({"transfer": hands_to("c")})
    assert await speakers(a, chatterer("b"), chatterer("c"), max_turns=3) == ["user", "c", "a"]


async def test_a_function_that_hands_over_to_an_agent_that_the_run_does_not_have_is_an_error() -> None:
    a = speaker("a", call("transfer"), "a goes on")
    a.register_function({"transfer": hands_to("zed")})
    response = await a_run(a, chatterer("b"), message="Hi", max_turns=3)
    with pytest.raises(TeamRunError, match="'transfer' of 'a' handed over to 'zed'"):
        await response.result()
    assert "zed" not in " ".join([event.text async for event in response.events][:-1])
