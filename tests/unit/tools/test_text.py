"""The results of tools as text."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel

from callboard.tools.base import to_text
from callboard.tools.errors import ToolReturnError


class Weather(BaseModel):
    city: str
    degrees: float


@dataclass
class Point:
    x: int
    label: str = "here"


class Colour(Enum):
    RED = "red"


class Named:
    def __str__(self) -> str:
        return "a thing with a name"


class Nameless:
    pass


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (5, "5"),
        (1.5, "1.5"),
        (True, "True"),
        (None, "None"),
        (b"bytes", "bytes"),
        ({"a": 1, "b": [None, "é"]}, '{"a":1,"b":[null,"é"]}'),
        ([1, 2], "[1,2]"),
        ((1, "x"), '[1,"x"]'),
        (Weather(city="Oslo", degrees=3.5), '{"city":"Oslo","degrees":3.5}'),
        (Point(1), '{"x":1,"label":"here"}'),
        ([Weather(city="Oslo", degrees=3.5)], '[{"city":"Oslo","degrees":3.5}]'),
        (Colour.RED, "red"),
        (dt.date(2026, 11, 21), "2026-11-21"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.50"), "1.50"),
        (Named(), "a thing with a name"),
        ({"it": Named()}, '{"it":"a thing with a name"}'),
        (float("nan"), "nan"),
        ([float("inf")], '["Infinity"]'),
        ("a\ud800b", "a\\ud800b"),
    ],
)
def test_values_and_their_texts(value: Any, text: str) -> None:
    assert to_text(value, "t") == text


def circular() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def deep() -> list[Any]:
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    return found


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Nameless(),
        {"it": Nameless()},
        Rude(),
        circular(),
        b"\xff",
        print,
        [lambda: 1],
        {"a": {"b": {1: {2: object()}}}},
    ],
)
def test_what_has_no_text_is_an_error_that_says_what_it_was(value: Any) -> None:
    with pytest.raises(ToolReturnError) as caught:
        to_text(value, "odd")
    assert type(value).__name__ in caught.value.reason
    assert "odd ran, but" in str(caught.value)


def test_what_is_nested_too_deep_is_an_error() -> None:
    with pytest.raises(ToolReturnError):
        to_text(deep(), "odd")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=50)
@given(st.lists(JSON) | st.dictionaries(st.text(), JSON))
def test_collections_become_json_that_can_be_sent(value: Any) -> None:
    text = to_text(value, "t")
    text.encode()
    json.loads(text)
