import dataclasses
from typing import Any

import pytest

from broker import Commit, DeadLetter, ErrorInfo, Outcome, Release, Retry


@pytest.mark.parametrize(
    "outcome", [Commit(), Retry(0.1, "why"), DeadLetter("why", ErrorInfo("E", "m")), Release("why")]
)
def test_outcomes_are_values(outcome: Outcome) -> None:
    again: Any = dataclasses.replace(outcome)
    assert again == outcome
    assert hash(again) == hash(outcome)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(outcome, dataclasses.fields(outcome)[0].name, None)


def test_a_plain_commit_changes_nothing() -> None:
    assert Commit() == Commit(reply=None, state=None, outgoing=())
