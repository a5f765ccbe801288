import logging
from collections.abc import Iterator
from typing import get_args

import pytest

from callboard.broker import telemetry
from callboard.broker.telemetry import LISTENERS, Event, Fenced, Handled, attach, emit


@pytest.fixture
def seen() -> Iterator[list[Event]]:
    events: list[Event] = []
    detach = attach(events.append)
    yield events
    detach()


def test_listeners_see_events_in_order(seen: list[Event]) -> None:
    emit(Fenced, "host:1:2", 3)
    emit(Handled, agent="a/b", message_id="m1", message_type="Task", seconds=0.5)
    assert seen == [Fenced("host:1:2", 3), Handled("a/b", "m1", "Task", 0.5)]


def test_nothing_is_made_while_nobody_listens() -> None:
    def never(worker: str) -> Event:
        raise AssertionError(worker)

    assert not LISTENERS
    emit(never, "w")


def test_detaching_ends_it_and_may_be_repeated() -> None:
    events: list[Event] = []
    first, second = attach(events.append), attach(events.append)
    assert LISTENERS
    first()
    first()
    emit(Fenced, "w", 1)
    assert len(events) == 1
    second()
    assert not LISTENERS


def test_a_listener_that_fails_is_logged_and_the_others_are_told(
    seen: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: Event) -> None:
        raise ZeroDivisionError

    detach = attach(broken)
    after: list[Event] = []
    detach_after = attach(after.append)
    with caplog.at_level(logging.ERROR, "callboard.broker.telemetry"):
        emit(Fenced, "w", 1)
    detach()
    detach_after()
    assert seen == after == [Fenced("w", 1)]
    assert "a telemetry listener failed on Fenced" in caplog.text


def test_the_table_of_the_docstring_has_every_event() -> None:
    assert telemetry.__doc__ is not None
    for event in get_args(Event):
        assert f"| {event.__name__} |" in telemetry.__doc__
        assert event.__doc__
