"""Errors of code executors."""

from __future__ import annotations

import pytest

from callboard import ActorError
from callboard.code import ConfinementError, FunctionsError, base as errors
from callboard.code.base import CodeError


@pytest.mark.parametrize(
    ("error", "builtin"), [(ConfinementError(["network"]), RuntimeError), (FunctionsError("no"), ValueError)]
)
def test_every_error_makes_its_sentence_and_can_be_made_again(
    error: CodeError, builtin: type[Exception]
) -> None:
    assert isinstance(error, ActorError)
    assert isinstance(error, builtin)
    assert str(type(error)(*error.args)) == str(error) != ""
    assert f"─ {type(error).__name__} " in (errors.__doc__ or "")
