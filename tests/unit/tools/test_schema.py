"""JSON schemas of tools."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from callboard.tools.errors import ToolDeclarationError
from callboard.tools.schema import parameters_of, to_parameters


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    city: str | None


class Tree(BaseModel):
    value: int
    children: list[Tree]


def test_references_are_replaced_by_what_they_refer_to() -> None:
    class Arguments(BaseModel):
        home: Address
        work: Address = Field(description="where one works")
        colour: Colour

    parameters = parameters_of(Arguments, "move")
    assert "$defs" not in parameters
    assert parameters["properties"]["home"]["properties"]["street"]["type"] == "string"
    assert parameters["properties"]["work"]["description"] == "where one works"
    assert parameters["properties"]["colour"]["enum"] == ["red", "blue"]
    assert parameters["type"] == "object"
    assert list(parameters.get("required", ())) == ["home", "work", "colour"]
    assert parameters.get("additionalProperties") is False


def test_what_contains_itself_keeps_its_definition() -> None:
    class Arguments(BaseModel):
        tree: Tree
        home: Address

    parameters = parameters_of(Arguments, "plant")
    assert parameters["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert list(parameters.get("$defs", {})) == ["Tree"]
    assert "$ref" not in parameters["properties"]["home"]


def test_two_classes_that_contain_each_other_are_both_kept() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {
            "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
            "B": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}, "c": {"$ref": "#/$defs/C"}}},
            "C": {"type": "string"},
        },
    }
    parameters = to_parameters(schema, "odd")
    assert set(parameters.get("$defs", {})) == {"A", "B"}
    assert parameters.get("$defs", {})["B"]["properties"]["c"] == {"type": "string"}


def test_a_default_that_json_can_not_show_is_left_out() -> None:
    class Arguments(BaseModel):
        model_config = {"arbitrary_types_allowed": True}
        number: int = 3
        odd: Any = object()

    properties = parameters_of(Arguments, "odd")["properties"]
    assert properties["number"]["default"] == 3
    assert "default" not in properties["odd"]


def test_strict_closes_every_object() -> None:
    class Circle(BaseModel):
        kind: Literal["circle"]
        radius: float

    class Square(BaseModel):
        kind: Literal["square"]
        side: float

    class Arguments(BaseModel):
        home: Address
        homes: list[Address]
        tree: Tree
        shape: Circle | Square = Field(discriminator="kind")

    parameters = parameters_of(Arguments, "move", strict=True)
    assert parameters["properties"]["home"]["additionalProperties"] is False
    assert parameters["properties"]["homes"]["items"]["additionalProperties"] is False
    assert parameters.get("$defs", {})["Tree"]["additionalProperties"] is False
    shape = parameters["properties"]["shape"]
    assert [option["additionalProperties"] for option in shape["anyOf"]] == [False, False]
    assert not {"oneOf", "discriminator"} & set(shape)


def test_strict_names_everything_that_stands_in_its_way() -> None:
    class Inner(BaseModel):
        optional: int = 1

    class Arguments(BaseModel):
        inner: Inner
        inners: list[Inner]
        free: dict[str, int]
        pair: tuple[int, str]
        late: str = "x"

    with pytest.raises(ToolDeclarationError, match="Strict mode is enabled") as caught:
        parameters_of(Arguments, "odd", strict=True)
    assert set(caught.value.places) == {
        "late has a default",
        "inner.optional has a default",
        "inners.optional has a default",
        "free takes any keys",
        "pair is a tuple",
    }
    assert isinstance(caught.value, ValueError)


def test_a_schema_from_elsewhere_is_not_changed() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
    to_parameters(schema, "odd")
    with pytest.raises(ToolDeclarationError):
        to_parameters(schema, "odd", strict=True)
    assert schema == {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
