"""A run as a task of A2A: members who write at once, attempts that are void, questions, and what no JSON can carry."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from a2a.types import Message, Part, Role
from google.protobuf.json_format import MessageToDict

from callboard.runs.bus import ROOM
from callboard.runs.events import (
    AgentMessageEvent,
    AsyncInputRequestEvent,
    CompletedEvent,
    ErrorEvent,
    Event,
    HandoffEvent,
    InputResponseEvent,
    InterruptedEvent,
    StreamEvent,
)
from callboard.web.a2a.messages import is_repeated
from callboard.web.a2a.story import TaskStory, clean
from callboard.web.access import Identity
from callboard.web.served_runs import ServedRun
from tests.helpers.a2a_clients import state, text

NOT_NEEDED = ("sse_starlette", "grpc", "sqlalchemy", "fastapi")


def test_the_door_needs_no_package_that_only_other_extras_bring() -> None:
    without = f"import sys; sys.modules.update(dict.fromkeys({NOT_NEEDED}))"
    command = [sys.executable, "-c", f"{without}; import callboard.web.a2a.door, callboard.agents.a2a_agent"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


class Played:
    """A story, and what a client has of it."""

    def __init__(self) -> None:
        self.story = TaskStory(ServedRun(Identity(name="ada"), "desk", "c", "r"))
        self.shown = ""
        self.states: list[str] = []
        self.numbers: list[int] = []
        self._entry = 1

    def __call__(self, kind: type[Event], source: str = "", *, is_draft: bool = False, **fields: Any) -> None:
        self._entry += 1
        event = kind(number=self._entry * ROOM + 1, source=source, is_draft=is_draft, **fields)
        for update in self.story.add(event):
            self.numbers.append(update.number)
            told: Any = update.told
            if hasattr(told, "status"):
                self.states.append(state(told))
                continue
            piece = "".join(part.text for part in told.artifact.parts)
            self.shown = self.shown + piece if told.append else piece
        # Who comes now has what those have who have read all of it.
        if self.shown:
            assert text(self.task()) == self.shown
        assert self.numbers == sorted(set(self.numbers))

    def writes(self, source: str, piece: str, message: str = "") -> str:
        self(StreamEvent, source, is_draft=True, content=piece, message_id=message)
        return self.shown

    def says(self, source: str, said: str, **more: Any) -> None:
        self(AgentMessageEvent, source, message={"text": said, "id": f"{self._entry}", **more})

    def task(self, *asked: str) -> Any:
        return self.story.task("working", asked, {}, 100)


def test_one_member_is_shown_at_a_time_and_the_next_from_its_beginning() -> None:
    played = Played()
    assert played.writes("ann", "A") == "A"
    assert played.writes("bob", "x") == "A"
    assert played.writes("ann", "B") == "AB"
    played.says("ann", "AB")
    assert played.writes("bob", "y") == "xy"
    played.says("bob", "xy")
    played(CompletedEvent)
    assert (played.shown, played.states) == ("xy", ["WORKING", "WORKING", "COMPLETED"])
    assert [said.parts[0].text for said in played.task().history] == ["AB", "xy"]


def test_what_is_void_is_taken_back() -> None:
    played = Played()
    played.writes("ann", "Not ")
    played.writes("ann", "this")
    played(InterruptedEvent, "ann", is_draft=True, since=1)
    assert played.shown == ""
    assert text(played.task()) == ""
    assert played.writes("ann", "But this") == "But this"
    played(InterruptedEvent, "bob", is_draft=True, since=1)
    assert played.shown == "But this"
    # What is written before a call of a tool is no part of the answer.
    assert played.writes("ann", "Other", "m2") == "Other"
    played(HandoffEvent, "ann", target="bob")
    assert played.shown == ""


def test_an_answer_with_a_form_is_data() -> None:
    played = Played()
    played.says("ann", '{"price": 5}', data={"price": 5, "half": 0.5, "none": float("nan"), "odd": "\ud800"})
    played(CompletedEvent)
    [part] = played.task().artifacts[0].parts
    assert MessageToDict(part.data) == {"price": 5, "half": 0.5, "none": None, "odd": "?"}
    assert clean("a\ud800b") == "a?b"


def test_of_several_questions_the_oldest_is_shown_and_an_end_is_an_end() -> None:
    played = Played()
    for name in ("q1", "q2"):
        played(AsyncInputRequestEvent, "boss", prompt=f"{name}?", request_id=name, choices=("a", "b"))
    assert state(played.task("q1", "q2")) == "INPUT_REQUIRED"
    assert played.task("q1", "q2").status.message.parts[0].text == "q1? [1 a, or 2 b]"
    assert played.task("q2").status.message.message_id == "q2"
    # Both are answered, and the run has not heard of it.
    answered = played.task()
    assert (state(answered), answered.status.HasField("message")) == ("WORKING", False)
    played(InputResponseEvent, "boss", value="a", request_id="q1", by="ada")
    assert state(played.task("q1")) == "WORKING"
    played(ErrorEvent, "boss", error_type="ValueError", content="no")
    assert state(played.task("q2")) == "FAILED"
    assert played.states[-1] == "FAILED"


@pytest.mark.parametrize(
    ("said", "by", "is_it"),
    [("2", "ada", True), ("b", "ada", True), ("a", "ada", False), ("b", "bob", False)],
)
def test_an_answer_that_is_sent_again_is_known_by_what_it_says_and_who_says_it(
    said: str, by: str, is_it: bool
) -> None:
    events = [
        AsyncInputRequestEvent(prompt="?", request_id="q", choices=("a", "b")),
        InputResponseEvent(value="b", request_id="q", by="ada"),
    ]
    message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text=said)])
    assert is_repeated(message, events, by) is is_it
