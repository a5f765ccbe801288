"""Why runs fail, as it crosses processes."""

from __future__ import annotations

import pytest

from callboard.broker.retry import Buried
from callboard.teams.outcome import answer_id, turn_answered


@pytest.mark.parametrize(
    ("message_id", "turn"),
    [(answer_id(3, "abc"), 3), ("T1W.9WVM1xWMyEq4", 7), ("x@y", 7), ("@", 7)],
    ids=["its own", "of an older version", "somebody else's", "nothing"],
)
def test_a_dead_letter_tells_which_turn_it_answered(message_id: str, turn: int) -> None:
    """By its id: when it comes, the member may have taken another turn."""
    buried = Buried(message_id, "team/default", "callboard.team.Answer", "failed")
    assert turn_answered(buried, last=7) == turn
