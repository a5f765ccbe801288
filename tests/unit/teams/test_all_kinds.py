"""What is true of teams of every kind: any in any, saved anywhere, reset."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from callboard.agents import TaskResult
from callboard.conditions import MaxMessageTermination
from callboard.messages import BaseAgentEvent
from callboard.models import ReplayChatCompletionClient
from callboard.teams import (
    BaseGroupChat,
    ConcurrentGroupChat,
    DiGraphBuilder,
    GraphFlow,
    MagenticOneGroupChat,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
    TeamDeclarationError,
    TeamStateError,
)
from tests.helpers.team_kinds import KINDS, SPEAKERS
from tests.helpers.team_members import Passer, speakers_of, texts_of

OUTER = [kind for kind in KINDS if kind != "swarm"]


def inner_team(kind: str, **options: Any) -> BaseGroupChat:
    return KINDS[kind](("x", "y"), name="inner", **options)


async def said_inside(kind: str) -> str:
    return speakers_of(await inner_team(kind).run(task="Begin.", output_task_messages=False))


def without_task(result: TaskResult) -> str:
    return speakers_of(result).removeprefix("user ")


# Any in any


@pytest.mark.parametrize(("outer", "inner"), list(product(OUTER, KINDS)))
async def test_a_team_of_any_kind_is_a_member_of_any(outer: str, inner: str) -> None:
    team = KINDS[outer](inner=inner_team(inner))
    said = without_task(await team.run(task="Begin.")).split()
    expected = SPEAKERS[outer].replace("INNER", await said_inside(inner)).split()
    # Those who speak at once are heard in any order.
    assert Counter(said) == Counter(expected) if outer == "concurrent" else said == expected


@pytest.mark.parametrize("inner", KINDS)
def test_only_a_swarm_takes_no_teams(inner: str) -> None:
    with pytest.raises(TeamDeclarationError, match="Participant 'inner' must be a ChatAgent"):
        Swarm([Passer("ann"), inner_team(inner)])  # type: ignore[list-item]


@pytest.mark.parametrize("kind", ["round_robin", "graph", "magentic", "concurrent"])
async def test_members_of_an_inner_team_may_have_the_names_of_the_outer_ones(kind: str) -> None:
    team = KINDS[kind](inner=KINDS["graph"](name="inner"))
    said = without_task(await team.run(task="Begin.")).split()
    assert Counter(said) == Counter(SPEAKERS[kind].replace("INNER", "ann bob").split())


GRAPH = DiGraphBuilder().add_node(Passer("ann")).build()
MAKERS: list[Callable[[Any], BaseGroupChat]] = [
    RoundRobinGroupChat,
    Swarm,
    ConcurrentGroupChat,
    lambda given: SelectorGroupChat(given, ReplayChatCompletionClient([])),
    lambda given: MagenticOneGroupChat(given, ReplayChatCompletionClient([])),
    lambda given: GraphFlow(given, GRAPH),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("given", [Passer("ann"), {"ann": Passer("ann")}, "ann", ["ann"], [Passer], None])
def test_what_are_no_members_is_said_in_a_sentence(make: Callable[[Any], BaseGroupChat], given: Any) -> None:
    with pytest.raises(TeamDeclarationError, match=r"have to be a list|can't take part in a team"):
        make(given)


# Saved anywhere


@pytest.mark.parametrize(("kind", "most"), list(product(KINDS, range(1, 7))))
async def test_saved_anywhere_and_loaded_into_new_objects_it_says_the_same(kind: str, most: int) -> None:
    whole = texts_of(await KINDS[kind]().run(task="Begin."))
    team = KINDS[kind](termination_condition=MaxMessageTermination(most))
    first = texts_of(await team.run(task="Begin."))
    other = KINDS[kind]()
    await other.load_state(json.loads(json.dumps(await team.save_state())))
    if first != whole:
        # Teams with a limit go on beyond it, because their turns are counted from the start of each run.
        assert [*first, *texts_of(await other.run())][: len(whole)] == whole
    assert len(first) <= len(whole)


@pytest.mark.parametrize(("kind", "inner"), list(product(OUTER, KINDS)))
async def test_a_team_within_is_saved_with_the_larger_one(kind: str, inner: str) -> None:
    def make() -> BaseGroupChat:
        return KINDS[kind](inner=inner_team(inner))

    team, other = make(), make()
    await team.run(task="Begin.")
    await other.load_state(json.loads(json.dumps(await team.save_state())))
    assert texts_of(await other.run(task="More.")) == texts_of(await team.run(task="More."))


@pytest.mark.parametrize("kind", KINDS)
async def test_reset_is_as_in_the_beginning(kind: str) -> None:
    team = KINDS[kind](termination_condition=MaxMessageTermination(3))
    first = texts_of(await team.run(task="Begin."))
    await team.reset()
    assert texts_of(await team.run(task="Begin.")) == first


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_no_state_of_it_is_refused(kind: str) -> None:
    team = KINDS[kind]()
    manager = team.plan.name
    state: dict[str, Any] = json.loads(json.dumps(await team.save_state()))
    for field in state["agent_states"][manager]:
        if field not in ("type", "version", "callboard", "message_thread", "model_context"):
            broken = {
                **state["agent_states"],
                manager: {**state["agent_states"][manager], field: {"no": object}},
            }
            with pytest.raises(TeamStateError):
                await team.load_state({**state, "agent_states": broken})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_state_is_small_beside_what_was_said(kind: str) -> None:
    """What grows is in the thread and in the context, which are logs on the bus."""
    team = KINDS[kind](max_turns=40) if kind not in ("graph", "magentic", "concurrent") else KINDS[kind]()
    result = await team.run(task="Begin.")
    manager = (await team.save_state())["agent_states"][team.plan.name]
    own = {field: value for field, value in manager.items() if field not in ("message_thread", "callboard")}
    assert len(json.dumps(own)) < 1000
    assert not any(isinstance(message, BaseAgentEvent) for message in result.messages)
