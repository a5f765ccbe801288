import dataclasses
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_serializer, model_validator

from callboard.broker.shape import Shape
from tests.unit.broker import shapes


def shape_of(cls: type[Any]) -> Shape:
    return Shape.of(TypeAdapter(cls).core_schema)


class Flat(BaseModel):
    a: int
    b: str | None = None


class Numeric(BaseModel):
    a: float


class Listed(BaseModel):
    a: list[int]


class Serialized(BaseModel):
    a: int

    @field_serializer("a")
    def odd(self, value: int) -> Any:
        return {1: value}


class Wrapped(BaseModel):
    model_config = ConfigDict(allow_inf_nan=True)
    a: float

    @model_validator(mode="before")
    @classmethod
    def first(cls, data: Any) -> Any:
        return data


class OneStrict(BaseModel):
    a: int = Field(strict=True)


class NamedLikeASchema(BaseModel):
    """Its fields are called as the keys of a schema are."""

    type: Literal["NamedLikeASchema"] = "NamedLikeASchema"
    fields_set: str = ""
    strict: str = ""


@dataclasses.dataclass
class Bare:
    items: list  # type: ignore[type-arg]


@dataclasses.dataclass
class Rows:
    rows: list[list[int]]


class ByHand(BaseModel):
    a: list[int]

    def __init__(self, a: list[int]) -> None:
        super().__init__(a=a)


PLAIN = Shape(
    is_nested=False,
    is_copied=True,
    levels=1,
    has_numbers=False,
    is_open=False,
    is_strict=False,
    is_json_only=False,
    has_bytes=False,
    has_aliases=False,
    has_crossed_aliases=False,
    allows_nan=False,
)


@pytest.mark.parametrize(
    ("cls", "special"),
    [
        (Flat, {}),
        (NamedLikeASchema, {}),
        (Numeric, {"has_numbers": True}),
        (Listed, {"levels": 2}),
        (Serialized, {"is_nested": True, "has_numbers": True, "is_copied": False, "is_open": True}),
        (Wrapped, {"is_copied": False, "has_numbers": True, "allows_nan": True}),
        (Rows, {"is_nested": True, "levels": 3}),
        (ByHand, {"is_copied": False, "levels": 2}),
        (OneStrict, {"is_strict": True}),
        (Bare, {"is_nested": True, "levels": 2, "has_numbers": True, "is_copied": False, "is_open": True}),
        (
            shapes.Tree,
            {"is_nested": True, "levels": 2, "has_numbers": True, "is_copied": False, "is_open": True},
        ),
        (shapes.Extra, {"is_nested": True, "has_numbers": True, "is_copied": False, "is_open": True}),
        (
            shapes.Meta,
            {"is_nested": True, "levels": 2, "has_numbers": True, "is_copied": False, "is_open": True},
        ),
        (shapes.Aliased, {"has_aliases": True}),
        (shapes.Crossed, {"has_aliases": True, "has_crossed_aliases": True}),
        (shapes.Point, {}),
    ],
)
def test_what_is_special(cls: type[Any], special: dict[str, Any]) -> None:
    assert shape_of(cls) == PLAIN._replace(**special)


def test_kinds_of_fields() -> None:
    assert shape_of(shapes.StrictBytes).has_bytes
    assert shape_of(shapes.Strict).is_strict
    assert shape_of(shapes.Weather).is_json_only
    assert not shape_of(shapes.Zoo).is_open
