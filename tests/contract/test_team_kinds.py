"""Teams of every kind on the bus: they say what they say in one process."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from pydantic import BaseModel

from callboard.conditions import HandoffTermination, MaxMessageTermination
from callboard.messages import HandoffMessage
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import BaseGroupChat, RoundRobinGroupChat, Swarm, TeamDeclarationError, TeamOutputError
from tests.helpers.runtimes import Runtimes
from tests.helpers.team_kinds import KINDS
from tests.helpers.team_members import Parrot, Passer, speakers_of, texts_of

ORDERED = [kind for kind in KINDS if kind != "concurrent"]


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


def inner_team() -> BaseGroupChat:
    return KINDS["selector"](("x", "y"), name="inner")


@pytest.mark.parametrize("kind", KINDS)
async def test_it_says_on_the_bus_what_it_says_here(kind: str, runtime: RedisAgentRuntime) -> None:
    here, there = KINDS[kind](), KINDS[kind](runtime=runtime)
    for task in ("Begin.", "More."):
        expected, result = await here.run(task=task), await there.run(task=task)
        if kind == "concurrent":  # who speaks at once is heard in any order
            assert sorted(speakers_of(result).split()) == sorted(speakers_of(expected).split())
        else:
            assert texts_of(result) == texts_of(expected)
        assert result.stop_reason == expected.stop_reason


@pytest.mark.parametrize("kind", [kind for kind in ORDERED if kind != "swarm"])
async def test_with_a_team_within(kind: str, runtime: RedisAgentRuntime) -> None:
    expected = await KINDS[kind](inner=inner_team()).run(task="Begin.")
    result = await KINDS[kind](inner=inner_team(), runtime=runtime).run(task="Begin.")
    assert speakers_of(result) == speakers_of(expected)


@pytest.mark.parametrize(("kind", "most"), list(product(ORDERED, (2, 3))))
async def test_saved_on_the_bus_it_goes_on_here(kind: str, most: int, runtime: RedisAgentRuntime) -> None:
    def make(**options: Any) -> BaseGroupChat:
        return KINDS[kind](termination_condition=MaxMessageTermination(most), **options)

    here, there, other = make(), make(runtime=runtime), make()
    first = texts_of(await here.run(task="Begin."))
    assert texts_of(await there.run(task="Begin.")) == first
    await other.load_state(json.loads(json.dumps(await there.save_state())))
    assert texts_of(await other.run()) == texts_of(await here.run())


@pytest.mark.parametrize("kind", ORDERED)
async def test_it_goes_on_in_another_process(kind: str, runtimes: Runtimes) -> None:
    def make(**options: Any) -> BaseGroupChat:
        return KINDS[kind](termination_condition=MaxMessageTermination(2), name="team", **options)

    here = make()
    expected = texts_of(await here.run(task="Begin.")), texts_of(await here.run())
    said = []
    for task in ("Begin.", None):
        runtime = runtimes.new()
        runtime.start()
        said.append(texts_of(await make(runtime=runtime).run(task=task)))
        await runtime.stop()
    assert tuple(said) == expected


async def test_a_task_that_the_strategy_refuses(runtime: RedisAgentRuntime) -> None:
    ends = HandoffTermination("user")
    team = Swarm([Passer("ann", ["user", "user"])], termination_condition=ends, runtime=runtime)
    await team.run(task="Begin.")
    with pytest.raises(
        TeamDeclarationError, match="The existing handoff target user is not one of the participants"
    ):
        await team.run(task="Go on.")
    result = await team.run(task=HandoffMessage(content="Go.", target="ann", source="user"))
    assert speakers_of(result) == "user ann"


class Answer(BaseModel):
    stars: int


async def test_a_team_answers_with_an_object(runtime: RedisAgentRuntime) -> None:
    members = [Parrot("ann", ['{"stars": 5}', "No."])]
    team = RoundRobinGroupChat(members, max_turns=1, runtime=runtime, output_content_type=Answer)
    assert (await team.run(task="Begin.")).output == Answer(stars=5)
    with pytest.raises(TeamOutputError, match="without a Answer in the last message, of 'ann'"):
        await team.run(task="Again.")
