"""What `callboard runs show` counts as a turn."""

from __future__ import annotations

import pytest

from callboard.cli.commands.runs import ends_turn
from callboard.messages.chat import TextMessage
from callboard.teams.protocol import Shown


@pytest.mark.parametrize(
    ("turn", "goes_on", "is_aside", "is_turn"),
    [
        pytest.param((1,), False, False, True, id="what a member says"),
        pytest.param((1,), True, False, False, id="the first part of it"),
        pytest.param((1,), False, True, False, id="a question that it asks, or the answer"),
        pytest.param((1, 2), False, False, False, id="what a member of a nested team says"),
        pytest.param((0,), False, False, False, id="what a manager says"),
    ],
)
def test_a_turn_is_counted_once_and_questions_are_none(
    turn: tuple[int, ...], goes_on: bool, is_aside: bool, is_turn: bool
) -> None:
    shown = Shown(
        turn=turn,
        source="guest",
        attempt="",
        messages=[TextMessage(content="Tea", source="guest")],
        is_final=True,
        goes_on=goes_on,
        is_aside=is_aside,
    )

    assert ends_turn(shown) is is_turn
