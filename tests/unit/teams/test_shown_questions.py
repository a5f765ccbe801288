"""What readers of a run see of a question."""

from __future__ import annotations

from typing import Any, cast

from callboard.broker import AgentId
from callboard.core.cancellation import UNSET
from callboard.core.people import Question
from callboard.messages import InputRequestedEvent
from callboard.teams.member import MOST_DETAILS, OMITTED, ShownQuestions
from callboard.teams.notices import Hearers


def shown(details: dict[str, Any]) -> InputRequestedEvent:
    question = Question.of(
        "May I?",
        name="n",
        choices=["yes", "no"],
        answer_type=str,
        to="ada",
        timeout=60,
        default=UNSET,
        details=details,
    )
    agent, nobody = AgentId("team.desk", "c"), Hearers("", ())
    (entry,) = ShownQuestions(cast("Any", None), "s", (1,), "desk", agent, nobody).asked("q1", question)
    assert entry.is_aside
    (event,) = entry.messages
    assert isinstance(event, InputRequestedEvent)
    return event


def test_all_of_it() -> None:
    event = shown({"kind": "tool_approval", "tool": "refund"})
    assert (event.request_id, event.content, event.source) == ("q1", "May I?", "desk")
    assert (event.choices, event.to, event.timeout) == (["yes", "no"], ["ada"], 60)
    assert event.details == {"kind": "tool_approval", "tool": "refund"}


def test_details_that_are_too_large_for_an_event_are_left_out() -> None:
    event = shown({"kind": "tool_approval", "arguments": {"text": "x" * MOST_DETAILS}})
    assert event.details == {"kind": "tool_approval", OMITTED: True}
