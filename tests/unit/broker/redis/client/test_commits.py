"""What a commit says: marks in the order of their table, each with what it brings."""

from __future__ import annotations

import pytest

from callboard.broker.envelope import Claim, Envelope, Posting
from callboard.broker.outcome import (
    NOTHING,
    Commit,
    DeadLetter,
    ErrorInfo,
    LogChange,
    Outcome,
    Release,
    Retry,
    Wait,
)
from callboard.broker.redis.library import ENDINGS, Mark, library, marks_of
from tests.helpers.commits import Done, as_done
from tests.helpers.lanes import entry

WINDOW = 60.0
REPLY = ("p1", "", "m1", "Count", "counter/a", b"", b"7")
VALUES = ("o1", "Note", "a", "counter/a", b"", b"out")
DEAD = DeadLetter("failed", ErrorInfo("ValueError", "no"))
FULL = Commit(
    Posting(Envelope("m1", "Count", "", "counter/a", 0, b"7"), "reply:p1"),
    (1, b"s"),
    (
        Posting(
            Envelope("o1", "Note", "a", "counter/a", 0, b"out"),
            "topic:log",
            0,
            "id-1",
            claim=Claim("blob:1", b"bytes"),
        ),
    ),
    "m1",
    "m1",
    logs=(1, (LogChange("thread", 2, (b"3", b"4")), LogChange("notes", 1, ()))),
)


def _done(outcome: Outcome, *, is_free: bool = True, tries: bytes = b"") -> Done:
    return as_done(entry("a", "a1", tries=tries), outcome, is_free, WINDOW)


@pytest.mark.parametrize(
    ("outcome", "ending"),
    [
        (NOTHING, Mark.COMMIT),
        (FULL, Mark.COMMIT),
        (DEAD, Mark.DEAD_LETTER),
        (Retry(1.0, "no"), Mark.RETRY),
        (Release("no"), Mark.RELEASE),
        (Wait("Visit", 2, DEAD), Mark.WAIT),
    ],
)
@pytest.mark.parametrize("is_free", [True, False])
def test_marks_stand_in_the_order_of_their_table(outcome: Outcome, ending: Mark, is_free: bool) -> None:
    marks = marks_of(_done(outcome, is_free=is_free, tries=b"1 1763700000000 no").mode)
    assert marks == sorted(marks, key=list(Mark).index)
    assert len(set(marks)) == len(marks)
    assert [mark for mark in marks if mark in ENDINGS] == [marks[0]] == [ending]
    assert (Mark.MORE in marks) is not is_free


def test_what_a_commit_brings_follows_in_the_same_order() -> None:
    done = _done(FULL, tries=b"1 1763700000000 no")
    assert marks_of(done.mode)[1:] == [
        Mark.TRIED,
        Mark.UNLESS_CANCELLED,
        Mark.FORGET,
        Mark.LOGS,
        Mark.STATE,
        Mark.CLAIMS,
        Mark.REPLY,
        Mark.IDENTIFIED,
    ]
    claims = ("", 1, "blob:1", b"bytes")
    outgoing = (60_000, 1, "id-1", "topic:log", 0, *VALUES)
    logs = (1, 2, "thread", 2, 2, b"3", b"4", "notes", 1, 0)
    assert tuple(done.extras) == ("m1", "m1", *logs, 1, b"s", *claims, *REPLY, *outgoing)


def test_letters_differ_and_lua_knows_them_by_the_same_names() -> None:
    assert len({str(mark) for mark in Mark}) == len(Mark)
    assert all(len(mark) == 1 for mark in Mark)
    assert "mode == 'C' .. 'M'" in library().text  # turn/modes.lua: COMMIT .. MORE
