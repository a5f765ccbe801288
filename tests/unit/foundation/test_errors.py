"""The base of all errors."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Sequence
from typing import Any

import pytest

from callboard.foundation import CallboardError, MissingPackageError


class PlainError(CallboardError):
    """No fields and no template."""


class LargeError(CallboardError, ValueError):
    template = "{size:,} bytes are more than {limit:,}: {advice}"
    permanent = True

    size: int
    limit: int = 1_000
    names: Sequence[str] = ()

    @property
    def advice(self) -> str:
        return f"send less than {', '.join(self.names)}" if self.names else "send less"


class LateError(LargeError, TimeoutError):
    """An OSError, whose constructor has ideas of its own about a third argument."""

    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.seconds = abs(self.seconds)


def test_the_sentence_is_made_of_fields_and_properties() -> None:
    assert str(LargeError(5_000)) == "5,000 bytes are more than 1,000: send less"
    assert str(LargeError(5, 4, ["a", "b"])) == "5 bytes are more than 4: send less than a, b"
    assert str(LargeError(5, names=["{size}"])).endswith("than {size}")


def test_fields_go_by_position_or_name_and_are_read_as_attributes() -> None:
    error = LargeError(5, limit=3)
    assert (error.size, error.limit, error.names) == (5, 3, ())
    assert vars(error) == {"size": 5, "limit": 3, "names": ()}
    assert error.args == (5, 3, ())
    assert error.permanent
    assert not PlainError.permanent
    match error:
        case LargeError(size, limit):
            assert (size, limit) == (5, 3)


def test_a_subclass_has_the_fields_of_its_base_first() -> None:
    error = LateError(5, 3, ["a"], -2.0)
    assert (error.size, error.seconds) == (5, 2.0)
    assert error.args == (5, 3, ("a",), 2.0)
    assert error.filename is None
    assert str(error) == "5 bytes are more than 3: send less than a"


@pytest.mark.parametrize(
    "error",
    [
        CallboardError("any", 1),
        PlainError(),
        LargeError(5),
        LateError(5, 3, ["a"], 1.5),
        MissingPackageError("p", "e"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_it_can_be_made_again(error: CallboardError) -> None:
    for again in (type(error)(*error.args), copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error)
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize(
    ("args", "fields"),
    [((), {}), ((1, 2, (), 4), {}), ((1,), {"size": 1}), ((1,), {"what": 1})],
    ids=["too few", "too many", "twice", "unknown"],
)
def test_wrong_arguments_are_refused(args: tuple[Any, ...], fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="LargeError takes size, limit, names"):
        LargeError(*args, **fields)


def test_the_signature_is_shown() -> None:
    shown = inspect.signature(LateError)
    assert list(shown.parameters) == ["size", "limit", "names", "seconds"]
    assert str(shown).startswith("(size: 'int', limit: 'int' = 1000, names: 'Sequence[str]' = ()")
    assert str(inspect.signature(PlainError)) == "()"


def test_an_application_may_have_its_own_constructor() -> None:
    class OwnError(CallboardError):
        def __init__(self, text: str, *, code: int) -> None:
            super().__init__(text)
            self.code = code

    error = OwnError("no", code=3)
    assert (str(error), error.args, error.code) == ("no", ("no",), 3)
    assert "code" in inspect.signature(OwnError).parameters


def test_a_missing_package_says_what_to_install() -> None:
    error = MissingPackageError("httpx2", "http")
    assert str(error) == "httpx2 is not installed: pip install 'callboard[http]'"
    assert isinstance(error, ImportError)
    assert error.permanent
