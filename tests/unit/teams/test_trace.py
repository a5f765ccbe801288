"""A run as a tree in time, from the entries of its stream."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from callboard.agents.base import Said
from callboard.messages.chat import TextMessage
from callboard.messages.events import (
    InputAnsweredEvent,
    InputRequestedEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from callboard.models import FunctionExecutionResult, RequestUsage
from callboard.models.types import FunctionCall
from callboard.runtime.run_history import RunEntry
from callboard.teams.protocol import RunBegan, RunEnded, Shown, TurnFailed
from callboard.teams.trace import RunTrace, Span

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class TraceFixture:
    """A run's stream, entry by entry."""

    def __init__(self) -> None:
        self.trace = RunTrace()
        self._number = 0
        task = Shown(turn=(0,), source="", attempt="", messages=[said("Go", 0)], is_final=True, is_task=True)
        began = RunBegan(team="desk", conversation="c", run_id="r")
        self.write(0, task.model_copy(update={"began": began}))

    def write(self, seconds: float, event: Shown | RunEnded) -> None:
        self._number += 1
        self.trace.add(RunEntry(self._number, at(seconds), event, ""))

    def shows(
        self,
        seconds: float,
        turn: tuple[int, ...],
        *messages: Said,
        attempt: str = "a",
        is_final: bool = True,
        is_aside: bool = False,
    ) -> None:
        shown = Shown(
            turn=turn,
            source="ada",
            attempt="" if is_aside else attempt,
            messages=list(messages),
            is_final=is_final,
            is_aside=is_aside,
        )
        self.write(seconds, shown)

    @property
    def root(self) -> Span:
        assert self.trace.root is not None
        return self.trace.root


def said(text: str, seconds: float, tokens: int = 0) -> TextMessage:
    usage = RequestUsage(prompt_tokens=tokens, completion_tokens=1) if tokens else None
    return TextMessage(content=text, source="ada", created_at=at(seconds), models_usage=usage)


def calls(name: str, seconds: float) -> ToolCallRequestEvent:
    made = FunctionCall(id=name, name=name, arguments="{}")
    return ToolCallRequestEvent(content=[made], source="ada", created_at=at(seconds))


def returns(name: str, seconds: float, *, is_error: bool = False) -> ToolCallExecutionEvent:
    result = FunctionExecutionResult(content="x", name=name, call_id=name, is_error=is_error)
    return ToolCallExecutionEvent(content=[result], source="ada", created_at=at(seconds))


def seen(span: Span) -> list[tuple[str, str, str]]:
    return [(one.kind, one.name, one.state) for one in span.spans]


def test_a_turn_lasts_from_what_came_before_it_and_counts_its_tokens() -> None:
    run = TraceFixture()
    run.shows(3, (1,), calls("look", 1), returns("look", 2, is_error=True), said("Done", 3, tokens=10))
    run.write(4, RunEnded(state="completed"))
    (turn,) = run.root.spans
    assert (turn.began, turn.ended, turn.prompt_tokens, turn.completion_tokens) == (at(0), at(3), 10, 1)
    assert seen(turn) == [("tool", "look", "failed"), ("message", "ada", "ok")]
    assert (turn.spans[0].began, turn.spans[0].ended) == (at(1), at(2))
    assert (run.root.name, run.root.text, run.root.state, run.root.ended) == ("desk", "Go", "ok", at(4))


def test_what_an_attempt_that_died_has_shown_stands_in_an_attempt_of_its_own() -> None:
    run, recorded = TraceFixture(), calls("look", 1)
    run.shows(1, (1,), recorded, attempt="a", is_final=False)
    run.shows(3, (1,), recorded, attempt="b", is_final=False)
    run.shows(6, (1,), said("Done", 6), attempt="c")
    (turn,) = run.root.spans
    assert seen(turn) == [
        ("attempt", "attempt 1", "void"),
        ("attempt", "attempt 2", "void"),
        ("message", "ada", "ok"),
    ]
    assert [(one.began, one.ended) for one in turn.spans[:2]] == [(at(0), at(3)), (at(3), at(6))]
    assert [one.state for attempt in turn.spans[:2] for one in attempt.spans] == ["void", "void"]


def test_a_question_lasts_until_its_answer_and_survives_an_attempt() -> None:
    run = TraceFixture()
    run.shows(1, (1,), calls("pay", 1), is_final=False)
    question = InputRequestedEvent(request_id="q", content="May I?", source="ada", created_at=at(1))
    run.shows(1, (1,), question, is_aside=True)
    assert seen(run.root.spans[0])[-1] == ("question", "ada", "open")
    answer = InputAnsweredEvent(request_id="q", status="answered", source="ada", created_at=at(60))
    run.shows(60, (1,), answer, is_aside=True)
    run.shows(61, (1,), said("Paid", 61), attempt="b")
    (asked,) = [one for one in run.root.spans[0].spans if one.kind == "question"]
    assert (asked.state, asked.ended, asked.text) == ("ok", at(60), "May I?")


def test_a_team_in_a_team_stands_in_its_turn_and_shows_everything_once() -> None:
    run = TraceFixture()
    inner = said("Inside", 2)
    run.shows(1, (1,), attempt="", is_final=False)
    run.shows(2, (1, 1), inner)
    run.shows(3, (1,), inner, said("Outside", 3), attempt="")
    (turn,) = run.root.spans
    assert [(one.kind, one.turn) for one in turn.spans] == [("turn", (1, 1)), ("message", ())]


def test_a_run_that_failed_says_why_and_what_was_open_then() -> None:
    run = TraceFixture()
    run.shows(1, (1,), calls("look", 1), is_final=False)
    error = TurnFailed(turn=1, error_type="ValueError", text="no", where="ada")
    run.write(2, RunEnded(state="failed", error=error))
    assert (run.root.state, run.root.spans[0].state) == ("failed", "failed")
    assert "ValueError: no" in run.root.text
