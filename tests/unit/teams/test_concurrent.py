"""ConcurrentGroupChat: rounds, the aggregator, who is chosen, how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from callboard.agents import Response
from callboard.agents.base import Said
from callboard.conditions import MaxMessageTermination, TextMentionTermination
from callboard.core.cancellation import CancellationToken
from callboard.messages import BaseChatMessage
from callboard.teams import (
    ConcurrentGroupChat,
    SpeakerChoiceError,
    TeamDeclarationError,
    TeamRunError,
)
from tests.helpers.team_members import Broken, Parrot, speakers_of, texts_of


def team_of(*names: str, **options: Any) -> ConcurrentGroupChat:
    return ConcurrentGroupChat([Parrot(name) for name in names or "abc"], **options)


@pytest.mark.parametrize(
    ("options", "speakers", "stop"),
    [
        ({}, "a b c", "All 3 participants have spoken."),
        ({"aggregator": "z"}, "a b c z", "z has joined what was said."),
        ({"rounds": 2}, "a b c a b c", "2 rounds are over."),
        ({"rounds": 2, "aggregator": "z"}, "a b c a b c z", "z has joined what was said."),
        ({"speakers_func": lambda _: ["c", "a", "c"]}, "c a", "All 2 participants have spoken."),
        ({"rounds": 5, "termination_condition": MaxMessageTermination(6)}, "a b c a b c", None),
        ({"rounds": 5, "max_turns": 1}, "a b c", "Maximum number of turns 1 reached."),
    ],
)
async def test_who_speaks(options: dict[str, Any], speakers: str, stop: str | None) -> None:
    if "aggregator" in options:
        options = {**options, "aggregator": Parrot("z")}
    result = await team_of(**options).run(task="Begin.")
    assert sorted(speakers_of(result).split()[1:4]) == sorted(speakers.split()[:3])
    assert len(speakers_of(result).split()) == 1 + len(speakers.split())
    assert speakers_of(result).split()[-1] in speakers.split()[-3:]
    assert result.stop_reason == stop or (
        stop is None and "Maximum number of messages 6" in str(result.stop_reason)
    )


async def test_members_speak_at_the_same_time() -> None:
    everybody = asyncio.Barrier(3)

    class Waiting(Parrot):
        async def on_messages(
            self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
        ) -> Response:
            await everybody.wait()
            return await super().on_messages(messages, cancellation_token)

    team = ConcurrentGroupChat([Waiting(name) for name in "abc"])
    result = await asyncio.wait_for(team.run(task="Begin."), 30)
    assert len(result.messages) == 4


async def test_what_members_hear() -> None:
    a, b, z = Parrot("a"), Parrot("b"), Parrot("z")
    await ConcurrentGroupChat([a, b], aggregator=z, rounds=2).run(task="Begin.")
    assert a.heard == [["Begin."], ["b1 [user:Begin.]"]]
    assert b.heard == [["Begin."], ["a1 [user:Begin.]"]]
    assert len(z.heard[0]) == 5


async def test_the_next_task_begins_anew() -> None:
    team = team_of("a", "b", aggregator=Parrot("z"))
    await team.run(task="One.")
    assert texts_of(await team.run(task="Two."))[1:3] == [
        "a: a2 [b:b1 z:z1 user:Two.]",
        "b: b2 [a:a1 z:z1 user:Two.]",
    ]
    assert speakers_of(await team.run()) == "a b z"


async def test_a_function_chooses_for_each_task_and_may_be_async() -> None:
    async def choose(thread: Sequence[Said]) -> list[str]:
        return [thread[-1].to_text()]

    team = team_of("a", "b", speakers_func=choose, rounds=2)
    assert speakers_of(await team.run(task="b")) == "user b b"
    assert speakers_of(await team.run(task="a")) == "user a a"


@pytest.mark.parametrize("chosen", [[], None, ["eve"], ["z"]])
async def test_a_function_that_chooses_nobody_is_an_error(chosen: Any) -> None:
    team = team_of("a", "b", aggregator=Parrot("z"), speakers_func=lambda _: chosen)
    with pytest.raises(SpeakerChoiceError, match=r"at least one of \['a', 'b'\]"):
        await team.run(task="Begin.")


async def test_all_of_a_round_counts_for_a_condition() -> None:
    team = team_of(rounds=3, termination_condition=TextMentionTermination("a1"))
    assert (await team.run(task="Begin.")).stop_reason == "Text 'a1' mentioned"


async def test_after_a_failure_those_go_on_who_have_not_spoken() -> None:
    b = Broken("b")
    team = ConcurrentGroupChat([Parrot("a"), b, Parrot("c")], aggregator=Parrot("z"))
    with pytest.raises(TeamRunError, match="b has lost its notes"):
        await team.run(task="Begin.")
    said = speakers_of(await team.run()).split()
    assert "b" in said
    assert "a" not in said
    assert said[-1] == "z"


async def test_a_run_that_was_ended_by_a_limit_goes_on() -> None:
    team = team_of("a", "b", aggregator=Parrot("z"), max_turns=1)
    await team.run(task="Begin.")
    result = await team.run()
    assert speakers_of(result) == "z"


async def test_reset() -> None:
    team = team_of("a", "b", aggregator=Parrot("z"), max_turns=1)
    await team.run(task="Begin.")
    await team.reset()
    assert speakers_of(await team.run()) == "a b"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"participants": []}, "At least one participant is required"),
        ({"participants": [], "aggregator": Parrot("z")}, "At least one participant is required"),
        ({"rounds": 0}, "rounds must be greater than 0"),
        ({"aggregator": Parrot("a")}, "names must be unique"),
    ],
)
def test_what_it_cannot_be_made_of(options: dict[str, Any], text: str) -> None:
    with pytest.raises(TeamDeclarationError, match=text):
        ConcurrentGroupChat(**{"participants": [Parrot("a")], **options})
