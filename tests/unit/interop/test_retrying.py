from __future__ import annotations

import pytest

from callboard.broker.outcome import DeadLetter
from callboard.interop import OnceUnlessKilled


@pytest.mark.parametrize("error", [ValueError("x"), ConnectionError("x")])
def test_a_handler_that_fails_is_not_tried_again(error: Exception) -> None:
    decided = OnceUnlessKilled().decide(1, error)
    assert isinstance(decided, DeadLetter)
    assert decided.error is not None
    assert decided.error.type == type(error).__name__


def test_a_message_whose_worker_died_has_more_attempts() -> None:
    assert OnceUnlessKilled().max_attempts == 3
    assert OnceUnlessKilled().outage == 0
