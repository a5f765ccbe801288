"""Answers against the JSON schemas that pydantic writes."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from callboard.answer_check import misfit


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel, extra="forbid"):
    colour: Colour
    count: Annotated[int, Field(ge=1, le=9)] = 1
    notes: dict[str, str] = {}


CASES: list[tuple[Any, Any, str]] = [
    (str, "x", ""),
    (str, 5, "it has to be a string"),
    (int, True, "it has to be an integer"),
    (float, 5, ""),
    (bool, 1, "it has to be a boolean"),
    (Literal["yes", "no"], "maybe", "it has to be one of yes, no"),
    (Colour, "green", "it has to be one of red, blue"),
    (int | None, None, ""),
    (int | None, "x", "it has to be an integer"),
    (list[int], [1, "x"], "item 2 has to be an integer"),
    (tuple[int, str], [1, 2], "item 2 has to be a string"),
    (Annotated[str, Field(min_length=3)], "ab", "it has to be as long as 3"),
    (Item, {"colour": "red"}, ""),
    (Item, {"count": 2}, "it has no 'colour'"),
    (Item, {"colour": "red", "count": 10}, "'count' has to be at most 9"),
    (Item, {"colour": "red", "size": 1}, "it may have no 'size'"),
    (Item, {"colour": "red", "notes": {"a": 1}}, "'a' has to be a string"),
    (Any, {"what": ["ever"]}, ""),
]


@pytest.mark.parametrize(("cls", "value", "problem"), CASES)
def test_what_does_not_fit_is_named(cls: Any, value: Any, problem: str) -> None:
    assert misfit(TypeAdapter(cls).json_schema(), value) == problem
