"""What is sent of a schedule that is due, and what counts as missed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from callboard import App
from callboard.core.declaration import Missed, Schedule
from callboard.runtime.scheduler import grace, step
from tests.helpers.runtimes import Note

SECOND = 1000
MINUTE = 60 * SECOND
NOW = 1_800_000_000_000  # a full hour


def schedule(every: timedelta, missed: Missed = "one") -> Schedule:
    return App("office").schedule(every, Note(text="tick"), topic="ticks", missed=missed)


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (timedelta(milliseconds=50), SECOND),
        (timedelta(seconds=10), 10 * SECOND),
        (timedelta(minutes=1), MINUTE),
        (timedelta(hours=6), MINUTE),
    ],
)
def test_how_late_is_missed_depends_on_when_the_next_one_is_due(every: timedelta, expected: int) -> None:
    assert grace(schedule(every), NOW) == expected


@pytest.mark.parametrize(
    ("missed", "late", "expected"),
    [
        ("skip", 10 * SECOND, (NOW - 10 * SECOND, NOW)),  # on time, just so
        ("skip", 30 * SECOND, (None, NOW)),
        ("one", 30 * SECOND, (NOW, NOW + 10 * SECOND)),
        ("all", 30 * SECOND, (NOW - 30 * SECOND, NOW - 20 * SECOND)),
    ],
)
def test_what_is_sent_of_one_that_is_due_every_ten_seconds(
    missed: Missed, late: int, expected: tuple[int | None, int]
) -> None:
    assert step(schedule(timedelta(seconds=10), missed), NOW - late, NOW - MINUTE, NOW) == expected
