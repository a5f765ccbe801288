"""Swarm: the target of the last handoff speaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from callboard.agents.base import Task
from callboard.conditions import HandoffTermination
from callboard.messages import HandoffMessage, SelectSpeakerEvent, TextMessage
from callboard.teams import (
    RoundRobinGroupChat,
    SpeakerChoiceError,
    Swarm,
    TeamDeclarationError,
    TeamRunError,
)
from tests.helpers.team_members import Parrot, Passer, shown_by, speakers_of


def swarm(ann: Sequence[str] = ("bob",), bob: Sequence[str] = (), **options: Any) -> Swarm:
    return Swarm([Passer("ann", ann), Passer("bob", bob), Parrot("cid")], **options)


def handoff(target: str) -> HandoffMessage:
    return HandoffMessage(content="Go.", target=target, source="user")


@pytest.mark.parametrize(
    ("ann", "bob", "task", "speakers"),
    [
        (["bob"], ["cid"], "Begin.", "user ann bob cid cid"),
        ([], [], "Begin.", "user ann ann ann ann"),
        (["ann", "cid"], [], "Begin.", "user ann ann cid cid"),
        ([], ["ann"], handoff("bob"), "user bob ann ann ann"),
        ([], [], [handoff("bob"), handoff("cid")], "user user cid cid cid cid"),
        ([], [], [handoff("cid"), TextMessage(content="Now.", source="user")], "user user cid cid cid cid"),
        ([], [], None, "ann ann ann ann"),
    ],
)
async def test_whoever_was_handed_over_to_speaks(
    ann: list[str], bob: list[str], task: Task, speakers: str
) -> None:
    assert speakers_of(await swarm(ann, bob, max_turns=4).run(task=task)) == speakers


async def test_the_next_run_goes_on_with_who_spoke_last() -> None:
    team = swarm(max_turns=2)
    await team.run(task="Begin.")
    assert speakers_of(await team.run(task="Go on.")) == "user bob bob"


async def test_a_handoff_that_ended_a_run_counts_in_the_next_one() -> None:
    team = swarm(max_turns=1)
    await team.run(task="Begin.")
    assert speakers_of(await team.run()) == "bob"


async def test_reset_begins_with_the_first() -> None:
    team = swarm(max_turns=2)
    await team.run(task="Begin.")
    await team.reset()
    assert speakers_of(await team.run(task="Begin.")) == "user ann bob"


# A handoff to somebody outside


@pytest.mark.parametrize(
    ("task", "text"),
    [
        (None, "The existing handoff target user is not one of the participants ['ann', 'bob', 'cid']."),
        ("Go on.", "The existing handoff target user is not one of the participants ['ann', 'bob', 'cid']."),
        (handoff("eve"), "The target eve is not one of the participants ['ann', 'bob', 'cid']."),
    ],
)
async def test_without_a_valid_target_it_does_not_go_on(task: Task, text: str) -> None:
    team = swarm(["user"], termination_condition=HandoffTermination("user"))
    result = await team.run(task="Begin.")
    assert result.stop_reason == "Handoff to user from ann detected."
    with pytest.raises(SpeakerChoiceError) as raised:
        await team.run(task=task)
    assert str(raised.value).startswith(text)


async def test_it_goes_on_with_a_handoff_to_a_member() -> None:
    team = swarm(["user", "bob"], ["user"], termination_condition=HandoffTermination("user"))
    await team.run(task="Begin.")
    result = await team.run(task=handoff("ann"))
    assert speakers_of(result) == "user ann bob"
    assert result.stop_reason == "Handoff to user from bob detected."


async def test_a_handoff_to_nobody_ends_the_run_with_an_error() -> None:
    team = swarm(["eve"], max_turns=5)
    with pytest.raises(TeamRunError, match="SpeakerChoiceError: The target eve is not one of"):
        await team.run(task="Begin.")


async def test_readers_see_who_is_next() -> None:
    shown = await shown_by(swarm(max_turns=2, emit_team_events=True), "Begin.")
    assert [item.content for item in shown if isinstance(item, SelectSpeakerEvent)] == [["ann"], ["bob"]]


@pytest.mark.parametrize(
    ("members", "error", "text"),
    [
        (
            lambda: [Passer("ann"), RoundRobinGroupChat([Parrot("bob")], name="inner")],
            TeamDeclarationError,
            "Participant 'inner' must be a ChatAgent",
        ),
        (
            lambda: [Parrot("ann"), Passer("bob")],
            TeamDeclarationError,
            "The first participant must be able to produce a handoff messages",
        ),
        (list, TeamDeclarationError, "At least one participant is required"),
    ],
)
def test_what_it_cannot_be_made_of(members: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Swarm(members())


def test_the_errors_are_those_of_autogen() -> None:
    assert issubclass(TeamDeclarationError, TypeError)
    assert issubclass(TeamDeclarationError, ValueError)
    assert issubclass(SpeakerChoiceError, ValueError)
