"""The limits of running handlers, and the board on which another process sees the first of them."""

from __future__ import annotations

import time

import pytest

from callboard.runtime.host import RunningLimits


def test_the_board_shows_the_first_that_has_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    limits = RunningLimits()
    shown = [limits.board[0]]
    slow, quick, other = limits.begin(30), limits.begin(5), limits.begin(20)
    for number in (other, quick, slow):
        shown.append(limits.board[0])
        limits.end(number)
    assert [*shown, limits.board[0]] == [0.0, 105.0, 105.0, 130.0, 0.0]


def test_overdue_is_how_late_the_first_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    limits = RunningLimits()
    number = limits.begin(5)
    assert limits.overdue() == 0.0
    monkeypatch.setattr(time, "monotonic", lambda: 107.5)
    assert limits.overdue() == 2.5
    limits.end(number)
    assert limits.overdue() == 0.0
