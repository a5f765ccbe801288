"""Errors of tools."""

from __future__ import annotations

import pytest

from callboard import ActorError
from callboard.tools import errors
from callboard.tools.errors import ToolError

DATA: dict[str, object] = {
    "reasons": ["one"],
    "problems": ["one"],
    "known": ["a"],
    "limit": 4,
    "seconds": 1.5,
    "still_running": True,
    "disabled": False,
    "status": 404,
}


ERRORS = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, ToolError) and cls.field_names
]


@pytest.mark.parametrize("cls", ERRORS, ids=[cls.__name__ for cls in ERRORS])
def test_every_error_makes_its_sentence_and_can_be_made_again(cls: type[ToolError]) -> None:
    names = cls.field_names
    error = cls(*(DATA.get(name, name) for name in names))
    assert isinstance(error, ActorError)
    assert str(error)
    again = cls(*error.args)
    assert str(again) == str(error)
    for name in names:
        assert getattr(error, name) == getattr(again, name)
    assert f"─ {cls.__name__} " in (errors.__doc__ or "")


def test_a_tool_that_is_switched_off_says_so() -> None:
    assert str(errors.UnknownToolError("a", ["b"])) == "Tool a not found. There are: b."
    assert str(errors.UnknownToolError("a", ["b"], disabled=True)).startswith(
        "Tool a is disabled at the moment"
    )
