"""Teams as plain data."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from callboard.agents import AssistantAgent
from callboard.agents.base import Team
from callboard.conditions import MaxMessageTermination
from callboard.foundation.component import NotDumpableError
from callboard.memory.contexts import BufferedChatCompletionContext
from callboard.models import ReplayChatCompletionClient
from callboard.teams import (
    ConcurrentGroupChat,
    DiGraphBuilder,
    GraphFlow,
    MagenticOneGroupChat,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
    TeamDeclarationError,
)
from tests.helpers.team_members import Parrot, texts_of


def agent(name: str) -> AssistantAgent:
    return AssistantAgent(name, ReplayChatCompletionClient([f"{name} one", f"{name} two"]))


def graph(condition: object = None) -> GraphFlow:
    builder = DiGraphBuilder().add_node(agent("ann")).add_node(agent("bob"))
    builder.add_edge("ann", "bob", condition=condition)  # type: ignore[arg-type]
    return GraphFlow(builder.get_participants(), builder.build())


@pytest.mark.parametrize(
    "make",
    [
        lambda: RoundRobinGroupChat(
            [agent("ann"), RoundRobinGroupChat([agent("bob")], max_turns=1, name="inner")], max_turns=2
        ),
        lambda: SelectorGroupChat(
            [agent("ann"), agent("bob")],
            ReplayChatCompletionClient(["bob"]),
            model_context=BufferedChatCompletionContext(3),
            termination_condition=MaxMessageTermination(3),
        ),
        lambda: Swarm([agent("ann")], max_turns=2, emit_team_events=True),
        lambda: graph("one"),
        lambda: ConcurrentGroupChat([agent("ann")], aggregator=agent("bob"), rounds=2),
        lambda: ConcurrentGroupChat([agent("ann")]),
        lambda: MagenticOneGroupChat([agent("ann")], ReplayChatCompletionClient(["a"]), max_turns=7),
    ],
)
async def test_a_team_is_made_again_from_its_dump(make: Callable[[], Team]) -> None:
    team = make()
    dump = json.loads(team.dump_component().model_dump_json())
    again = Team.load_component(dump)
    assert type(again) is type(team)
    assert json.loads(again.dump_component().model_dump_json()) == dump
    if not isinstance(team, MagenticOneGroupChat):
        assert texts_of(await again.run(task="Begin.")) == texts_of(await team.run(task="Begin."))


def test_functions_are_not_dropped_in_silence() -> None:
    with pytest.raises(TeamDeclarationError):
        graph(lambda _: True).dump_component()
    model = ReplayChatCompletionClient([])
    with pytest.raises(NotDumpableError, match="selector_func"):
        SelectorGroupChat([agent("ann"), agent("bob")], model, selector_func=lambda _: None).dump_component()


def test_a_member_that_is_no_component() -> None:
    with pytest.raises(NotDumpableError, match="Parrot is no component"):
        RoundRobinGroupChat([Parrot("ann")]).dump_component()
