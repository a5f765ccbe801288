"""What the turn loop gives to strategies, and does for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from callboard.conditions import MaxMessageTermination
from callboard.messages import SelectSpeakerEvent, TextMessage
from callboard.teams import BaseGroupChat, Choice, Floor, SpeakerSelection, TeamRunError
from tests.helpers.team_members import Broken, Parrot, shown_by, speakers_of


class Scripted(SpeakerSelection):
    """Makes the choices that it is given, and writes down what it saw."""

    def __init__(self, choices: Sequence[Choice], ends: Sequence[str | None] = ()) -> None:
        self._choices = list(choices)
        self._ends = list(ends)
        self.task: list[list[str]] = []
        self.answers: list[dict[str, str]] = []
        self.rounds: list[list[str]] = []

    async def select(self, floor: Floor) -> Choice:
        self.task.append([message.to_text() for message in floor.task])
        self.answers.append({name: said.to_text().split()[0] for name, said in floor.answers.items()})
        return self._choices.pop(0)

    async def after_round(self, floor: Floor) -> str | None:
        self.rounds.append(sorted(floor.answers))
        return self._ends.pop(0) if self._ends else None


class ScriptedTeam(BaseGroupChat):
    def __init__(self, selection: Scripted, members: Sequence[Parrot], **options: Any) -> None:
        super().__init__(members, name="team", description="", manager_name="boss", **options)
        self.selection = selection

    def new_selection(self) -> SpeakerSelection:
        return self.selection


def team_of(*choices: Choice, ends: Sequence[str | None] = (), **options: Any) -> ScriptedTeam:
    members = options.pop("members", None) or [Parrot(name, thinks=name == "a") for name in "abc"]
    return ScriptedTeam(Scripted(choices, ends), members, **options)


END = Choice(stop="Over.")


def said(text: str) -> TextMessage:
    return TextMessage(content=text, source="boss")


async def test_a_strategy_sees_who_said_what_since_its_last_choice() -> None:
    team = team_of(Choice("ab"), Choice("c"), END)
    await team.run(task="Begin.")
    assert team.selection.task == [["Begin."], [], []]
    assert team.selection.answers == [{}, {"a": "a1", "b": "b1"}, {"c": "c1"}]


async def test_what_ended_a_run_is_new_in_the_next_one() -> None:
    team = team_of(Choice("a"), Choice("b"), END, termination_condition=MaxMessageTermination(2))
    await team.run(task="One.")
    await team.run(task="Two.")
    assert team.selection.answers[1] == {"a": "a1"}
    assert team.selection.task[1] == ["Two."]


async def test_it_is_new_after_a_state_was_loaded_as_well() -> None:
    team = team_of(Choice("a"), max_turns=1)
    await team.run(task="One.")
    other = team_of(END)
    await other.load_state(await team.save_state())
    await other.run()
    assert other.selection.answers == [{"a": "a1"}]


async def test_what_some_had_said_before_a_failure_is_new() -> None:
    members: list[Parrot] = [Parrot("a"), Broken("b")]
    team = team_of(Choice("ab"), END, members=members)
    with pytest.raises(TeamRunError):
        await team.run(task="One.")
    await team.run()
    assert list(team.selection.answers[1]) == ["a"]


async def test_it_takes_note_of_each_round_and_may_end_the_run_before_the_condition() -> None:
    ends = MaxMessageTermination(4)
    team = team_of(Choice("ab"), Choice("c"), ends=[None, "Done."], termination_condition=ends)
    result = await team.run(task="Begin.")
    assert team.selection.rounds == [["a", "b"], ["c"]]
    assert result.stop_reason == "Done."
    assert not ends.terminated


async def test_who_is_chosen_twice_speaks_once() -> None:
    team = team_of(Choice(["a", "b", "a"]), END, emit_team_events=True)
    shown = await shown_by(team, "Begin.")
    (event,) = [item for item in shown if isinstance(item, SelectSpeakerEvent)]
    assert event.content == ["a", "b"]


async def test_who_forgets_forgets_what_it_has_not_heard() -> None:
    members = [Parrot(name) for name in "abc"]
    choices = [Choice("a"), Choice("b", [said("Anew.")], ["b"]), Choice("c"), END]
    result = await team_of(*choices, members=members).run(task="Begin.")
    assert members[1].heard == [["Anew."]]
    assert members[2].heard == [["Begin.", "a1 [user:Begin.]", "Anew.", "b1 [boss:Anew.]"]]
    assert speakers_of(result) == "user a boss b c"


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        (lambda: Choice("z"), "Speaker z not found in participant names"),
        (Choice, "Scripted chose nobody, and gave no reason to stop"),
    ],
)
async def test_a_choice_that_is_none(choice: Callable[[], Choice], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        await team_of(choice()).run(task="Begin.")
