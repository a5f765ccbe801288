"""What a stream of OpenAI's door shows where several members write, attempts end, and texts change."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.runs.bus import ROOM
from callboard.runs.events import AgentMessageEvent, Event, HandoffEvent, InterruptedEvent, StreamEvent
from callboard.web import Identity
from callboard.web.openai.chat import ChatText, VoidError
from callboard.web.openai.frames import Frames
from callboard.web.openai.segments import Segment
from callboard.web.served_runs import ServedRun


def piece(source: str, text: str, id: str = "") -> StreamEvent:
    return StreamEvent(source=source, content=text, message_id=id or source, is_draft=True)


def message(source: str, text: str, id: str = "") -> AgentMessageEvent:
    return AgentMessageEvent(source=source, message={"text": text, "id": id or source}, number=2 * ROOM)


def text_of(*events: Event) -> list[str]:
    shown = ChatText()
    return [shown.take(event) for event in events]


def frames_of(*events: Event) -> list[dict[str, Any]]:
    frames = Frames(Segment(ServedRun(Identity(name="ada"), "desk", "c", "r")))
    numbered = [event.model_copy(update={"number": (2 + at) * ROOM}) for at, event in enumerate(events)]
    return [frame for event in numbered for frame in frames.of(event)]


def done(*events: Event) -> list[tuple[int, str, str]]:
    found = [frame for frame in frames_of(*events) if frame["type"] == "response.output_item.done"]
    return [(one["output_index"], one["item"]["status"], one["item"]["content"][0]["text"]) for one in found]


def test_two_who_write_at_once_are_shown_one_after_the_other() -> None:
    events = (piece("ann", "I "), piece("bob", "You "), message("bob", "You too."), piece("ann", "am."))
    assert text_of(*events, message("ann", "I am.")) == ["I ", "", "", "am.", "\n\nYou too."]
    assert done(*events, message("ann", "I am.")) == [(1, "completed", "You too."), (0, "completed", "I am.")]


def test_an_attempt_that_says_the_same_goes_on_where_the_first_one_was() -> None:
    gone = InterruptedEvent(source="ann", since=1)
    events = (piece("ann", "I am", "1"), gone, piece("ann", "I ", "2"), piece("ann", "am he", "2"))
    assert text_of(*events, message("ann", "I am here.", "2")) == ["I am", "", "", " he", "re."]
    assert done(*events, message("ann", "I am here.", "2")) == [
        (0, "incomplete", "I am"),
        (1, "completed", "I am here."),
    ]


@pytest.mark.parametrize(
    "other", [piece("ann", "It", "2"), message("ann", "It is.", "2"), message("ann", "I", "2")]
)
def test_an_attempt_that_says_something_else_is_told(other: Event) -> None:
    with pytest.raises(VoidError):
        text_of(piece("ann", "I am", "1"), InterruptedEvent(source="ann", since=1), other)


def test_a_text_that_a_guardrail_has_changed_is_void_in_a_chat_and_done_in_a_response() -> None:
    events = piece("ann", "My key is 7."), message("ann", "My key is ***.")
    with pytest.raises(VoidError):
        text_of(*events)
    assert done(*events) == [(0, "completed", "My key is ***.")]


def test_what_is_written_before_a_handoff_holds_nobody_up() -> None:
    events = piece("ann", "Let me see."), HandoffEvent(source="ann", target="bob"), piece("bob", "Yes.")
    assert text_of(*events, message("bob", "Yes.")) == ["Let me see.", "", "\n\nYes.", ""]
    assert done(*events, message("bob", "Yes.")) == [
        (0, "incomplete", "Let me see."),
        (1, "completed", "Yes."),
    ]


def test_numbers_of_frames_rise_and_each_item_has_a_place_of_its_own() -> None:
    frames = frames_of(
        piece("ann", "I", "1"), piece("ann", "A", "2"), message("bob", "B"), message("ann", "C")
    )
    numbers = [frame["sequence_number"] for frame in frames]
    assert numbers == sorted(set(numbers))
    begun = [one["output_index"] for one in frames if one["type"] == "response.output_item.added"]
    assert begun == [0, 1, 2, 3]
