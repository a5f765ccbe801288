"""A run as its readers see it: everything once, what a dead process said is void, and what counts is in the result."""

from __future__ import annotations

from callboard.agents.base import Said
from callboard.messages import (
    AttemptEndedEvent,
    InputAnsweredEvent,
    InputRequestedEvent,
    ModelClientStreamingChunkEvent,
    TextMessage,
    ThoughtEvent,
)
from callboard.teams.client import RunView
from callboard.teams.protocol import RunEnded, Shown

TASK = TextMessage(content="go", source="user")
HELLO = TextMessage(content="hello", source="a")
HM = ThoughtEvent(content="hm", source="a")
HEL = ModelClientStreamingChunkEvent(content="hel", source="a")
BYE = TextMessage(content="bye", source="x")


def draft(attempt: str, *messages: Said, turn: tuple[int, ...] = (1,)) -> Shown:
    return Shown(turn=turn, source="a", attempt=attempt, messages=list(messages))


def final(attempt: str, *messages: Said, turn: tuple[int, ...] = (1,)) -> Shown:
    return Shown(turn=turn, source="a", attempt=attempt, messages=list(messages), is_final=True)


TASK_SHOWN = Shown(turn=(0,), source="", attempt="", messages=[TASK], is_final=True, is_task=True)


def read(*entries: Shown, shows_task: bool = True) -> tuple[list[Said], list[Said]]:
    """What is shown of these, and what the result has."""
    reading = RunView(shows_task)
    shown = [message for entry in entries for message in reading.show(entry)]
    return shown, list(reading.result(RunEnded(state="completed")).messages)


def aside(message: Said) -> Shown:
    return Shown(turn=(1,), source="a", attempt="", messages=[message], is_final=True, is_aside=True)


def test_a_question_is_shown_once_and_makes_nothing_void() -> None:
    asked = InputRequestedEvent(id="1:open", source="a", request_id="1", content="May I?")
    answered = InputAnsweredEvent(id="1:answered", source="a", request_id="1", status="answered")
    entries = [
        draft("x", HEL),
        aside(asked),
        aside(asked),
        draft("x", HM),
        aside(answered),
        final("x", HELLO),
    ]
    shown, kept = read(*entries, aside(answered))
    assert shown == [HEL, asked, HM, answered, HELLO]
    assert kept == [HELLO]


def test_a_turn_that_goes_on_with_an_answer_was_not_interrupted() -> None:
    asked = InputRequestedEvent(id="1:open", source="a", request_id="1", content="May I?")
    shown, _ = read(draft("x", HM), aside(asked), draft("y", HM), final("y", HELLO))
    ended = shown[2]
    assert isinstance(ended, AttemptEndedEvent)
    assert ended.content.startswith("goes on with the answer")


def test_a_turn_without_drafts() -> None:
    assert read(TASK_SHOWN, final("x", HM, HELLO)) == ([TASK, HM, HELLO], [TASK, HM, HELLO])


def test_the_task_can_be_left_out() -> None:
    assert read(TASK_SHOWN, final("x", HELLO), shows_task=False) == ([HELLO], [HELLO])


def test_what_was_shown_while_the_turn_was_under_way_is_not_shown_again() -> None:
    shown, kept = read(draft("x", HEL), draft("x", HM), final("x", HM, HELLO))
    assert shown == [HEL, HM, HELLO]
    assert kept == [HM, HELLO]


def test_another_attempt_makes_the_first_void() -> None:
    shown, kept = read(draft("x", HEL), draft("y", HM), final("y", HM, HELLO))
    ended = shown[1]
    assert isinstance(ended, AttemptEndedEvent)
    assert (ended.source, ended.void_ids) == ("a", [HEL.id])
    assert shown[2:] == [HM, HELLO]
    assert kept == [HM, HELLO]


def test_another_attempt_without_drafts_makes_the_first_void() -> None:
    shown, kept = read(draft("x", HEL), final("y", HELLO))
    assert [type(message) for message in shown] == [
        ModelClientStreamingChunkEvent,
        AttemptEndedEvent,
        TextMessage,
    ]
    assert kept == [HELLO]


def test_turns_at_the_same_time_are_kept_apart() -> None:
    shown, kept = read(
        draft("x", HEL), draft("y", BYE, turn=(2,)), final("y", BYE, turn=(2,)), final("x", HELLO)
    )
    assert shown == [HEL, BYE, HELLO]
    assert kept == [BYE, HELLO]


def test_a_turn_of_a_nested_team_counts_when_the_larger_one_has_heard_it() -> None:
    inside = (1, 7)
    entries = [draft("x", HEL, turn=inside), final("x", HELLO, turn=inside)]
    assert read(*entries) == ([HEL, HELLO], [])
    shown, kept = read(*entries, final("", HELLO, BYE))
    assert shown == [HEL, HELLO, BYE]
    assert kept == [HELLO, BYE]


def test_a_member_of_a_nested_team_that_died_is_void_alone() -> None:
    shown, kept = read(
        final("x", BYE, turn=(1, 6)), draft("x", HEL, turn=(1, 7)), final("y", HELLO, turn=(1, 7))
    )
    ended = shown[2]
    assert isinstance(ended, AttemptEndedEvent)
    assert ended.void_ids == [HEL.id]
    assert kept == []
