import collections
import datetime as dt
import decimal
import enum
import pathlib
import types
import uuid
from typing import Any

import pytest
from pydantic import BaseModel, Secret, SecretBytes, SecretStr
from pydantic_core import PydanticSerializationError

from callboard.broker.codec import (
    UnwritableError,
    key_text,
    pack_body,
    packb,
    plain,
    substitute,
)


class Colour(enum.Enum):
    RED = "red"


class Word(str):
    __slots__ = ()


class Note(BaseModel):
    text: str


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (dt.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.time(3, 4), "03:04:00"),
        (dt.timedelta(seconds=1.5), "PT1.5S"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (decimal.Decimal("1.10"), "1.10"),
        (Colour.RED, "red"),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (frozenset({1}), [1]),
        (collections.deque([1, 2]), [1, 2]),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (Note(text="x"), {"text": "x"}),
    ],
)
def test_substitutes(value: Any, written: Any) -> None:
    assert substitute(value) == written


@pytest.mark.parametrize("value", [SecretStr("x"), SecretBytes(b"x"), Secret(1)])
def test_secrets_have_none(value: Any) -> None:
    with pytest.raises(UnwritableError, match="secrets stay out of messages"):
        substitute(value)


def test_unknown_types_have_none() -> None:
    with pytest.raises(PydanticSerializationError, match="there is a object in it"):
        substitute(object())


def test_plain_goes_all_the_way_down() -> None:
    value = {
        1: (Colour.RED, {uuid.UUID(int=1): {dt.date(2026, 1, 2)}}),
        "word": Word("x"),
        "map": collections.OrderedDict(a=b"raw"),
    }
    assert plain(value) == {
        "1": ["red", {"00000000-0000-0000-0000-000000000001": ["2026-01-02"]}],
        "word": "x",
        "map": {"a": b"raw"},
    }


def test_the_deepest_that_is_written() -> None:
    value: Any = 1
    for _ in range(32):
        value = [value]
    assert plain(value) == value
    for deeper in ([value], {"a": value}):
        with pytest.raises(UnwritableError, match="deeper than 32"):
            plain(deeper)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("a", "a"),
        (Word("a"), "a"),
        (1, "1"),
        (1.5, "1.5"),
        (True, "true"),
        (None, "None"),
        (Colour.RED, "red"),
        (b"k", "k"),
    ],
)
def test_keys_become_text(key: Any, text: str) -> None:
    assert key_text(key) == text
    assert type(key_text(key)) is str


def test_some_keys_can_not_become_text() -> None:
    with pytest.raises(UnwritableError, match="a map has a tuple as key"):
        key_text((1, 2))


class PackingMap(dict[str, int]):
    """Packs something else while it is packed itself."""

    def items(self) -> Any:
        assert pack_body({"inner": [1, 2, 3]}) == packb({"inner": [1, 2, 3]})
        return super().items()


def test_packing_within_packing_keeps_both_apart() -> None:
    for _ in range(3):
        assert pack_body({"a": PackingMap(b=1), "c": 2}) == packb({"a": {"b": 1}, "c": 2})


def test_a_value_that_cannot_be_packed_spoils_no_other() -> None:
    for _ in range(3):
        with pytest.raises(UnwritableError):
            pack_body({"a": [1, 2, SecretStr("s")]})
        with pytest.raises(OverflowError):
            pack_body([1, 2**80])
        assert pack_body({"a": Colour.RED}) == packb({"a": "red"})


@pytest.mark.parametrize("size", [0, 65_535, 65_536, 300_000])
def test_packing_gives_the_same_whatever_was_packed_before(size: int) -> None:
    for _ in range(2):
        assert pack_body(b"x" * size) == packb(b"x" * size)
        assert pack_body({"after": 1}) == packb({"after": 1})
