"""Errors of tools."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from actors import ActorError
from actors.tools import errors, http_errors, mcp_errors, missing
from actors.tools.errors import ToolError

DATA: dict[str, object] = {
    "reasons": ["one"],
    "problems": ["one"],
    "known": ["a"],
    "allowed": ["a"],
    "length": 5,
    "limit": 4,
    "seconds": 1.5,
    "still_running": True,
    "status": 404,
}


def classes() -> Iterator[type[ToolError]]:
    for module in (errors, http_errors, mcp_errors, missing):
        for cls in vars(module).values():
            if isinstance(cls, type) and issubclass(cls, ToolError) and "__init__" in vars(cls):
                yield cls


ERRORS = sorted(set(classes()), key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", ERRORS, ids=[cls.__name__ for cls in ERRORS])
def test_every_error_makes_its_sentence_and_can_be_made_again(cls: type[ToolError]) -> None:
    names = list(inspect.signature(cls).parameters)
    error = cls(*(DATA.get(name, name) for name in names))
    assert isinstance(error, ActorError)
    assert len(str(error)) > 10
    again = cls(*error.args)
    assert str(again) == str(error)
    for name in names:
        assert getattr(error, name) == getattr(again, name)


def test_a_missing_package_says_what_to_install() -> None:
    error = missing.MissingPackageError("httpx2", "http")
    assert str(error) == "httpx2 is not installed: pip install 'callboard[http]'"
    assert isinstance(error, ImportError)
