"""Models from JSON schemas."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from callboard.tools.base import validated
from callboard.tools.errors import ToolArgumentsError, ToolDeclarationError
from callboard.tools.schema import given_arguments, model_from_schema, schema_to_pydantic_model

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "user-id": {"type": "integer", "minimum": 1},
        "class": {"type": "string", "minLength": 2, "pattern": "^a"},
        "schema": {"enum": ["x", "y", None]},
        "kind": {"const": "k"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "home": {"$ref": "#/$defs/Home"},
        "free": {"type": "object"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        "many": {"type": ["number", "null"]},
        "whatever": True,
        "page": {"type": "integer", "default": 7},
        "odd": {"enum": [1.5]},
        "strange": {"type": "nonsense"},
    },
    "required": ["user-id"],
    "$defs": {
        "Home": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def given(**arguments: Any) -> dict[str, Any]:
    model = model_from_schema(SCHEMA, "t")
    return given_arguments(validated(model, arguments, "t"), SCHEMA)


def test_what_is_given_and_what_has_a_default_comes_out() -> None:
    assert given(**{"user-id": "3"}) == {"user-id": 3, "page": 7}
    full = {
        "user-id": 1,
        "class": "ab",
        "schema": "x",
        "kind": "k",
        "tags": ["a"],
        "home": {"city": "Oslo"},
        "free": {"a": [1]},
        "either": True,
        "many": 2.5,
        "whatever": {"x": 1},
        "page": 1,
        "odd": 1.5,
        "strange": "x",
    }
    assert given(**full) == full


def test_null_for_something_optional_is_as_if_it_were_not_there() -> None:
    assert given(**{"user-id": 1, "class": None, "home": None}) == {"user-id": 1, "page": 7}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "user-id: Field required"),
        ({"user-id": 0}, "user-id: Input should be greater than or equal to 1"),
        ({"class": "b"}, "class: String should have at least 2 characters"),
        ({"class": "bb"}, "class: String should match pattern"),
        ({"schema": "z"}, "schema: Input should be 'x', 'y' or None"),
        ({"kind": "x"}, "kind: Input should be 'k'"),
        ({"tags": ["a", "b", "c"]}, "tags: List should have at most 2 items"),
        ({"tags": [1]}, "tags.0: Input should be a valid string"),
        ({"home": {}}, "home.city: Field required"),
        ({"home": {"city": "x", "z": 1}}, "home.z: Extra inputs are not permitted"),
        ({"free": 3}, "free: Input should be a valid dictionary"),
        ({"clas": "ab"}, "clas: there is no such argument. Did you mean 'class'?"),
    ],
)
def test_what_does_not_fit_is_named(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ToolArgumentsError) as caught:
        given(
            **({"user-id": 1} if arguments else {}), **{k: v for k, v in arguments.items() if k != "user-id"}
        ) if ("user-id" not in arguments) else given(**arguments)
    assert problem in str(caught.value)


def test_a_schema_may_take_anything() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
    model = model_from_schema(schema, "t")
    assert given_arguments(validated(model, {"a": 1}, "t"), schema) == {"a": 1}


class TestSchemaToPydanticModel:
    def test_fields_have_the_names_of_the_keys(self) -> None:
        home = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        schema = {
            "properties": {"home": {"$ref": "#/$defs/Home"}, "age": {"type": "integer", "default": 3}},
            "required": ["home"],
            "$defs": {"Home": home},
        }
        person: Any = schema_to_pydantic_model(schema, "Person")
        ada = person.model_validate({"home": {"city": "Ulm"}})
        assert (person.__name__, ada.home.city, ada.age) == ("Person", "Ulm", 3)
        assert ada.model_dump(by_alias=True) == {"home": {"city": "Ulm"}, "age": 3}
        with pytest.raises(ValidationError):
            person.model_validate({"home": {}})

    def test_keys_that_can_be_no_names(self) -> None:
        keys = ["class", "user-id", "_a", "model_b", "schema", "field_1", "field_0"]
        made: Any = schema_to_pydantic_model({"properties": {key: {"type": "string"} for key in keys}})
        values = {key: key for key in keys}
        assert made.model_validate(values).model_dump(by_alias=True) == values
        assert made.model_validate(values).field_1 == "field_1"

    @pytest.mark.parametrize(
        ("schema", "problem"),
        [
            ({"type": "string"}, "has to be of"),
            ({"properties": {"a": {"items": [{"$ref": "#/$defs/A"}]}}}, "#/\\$defs/A leads nowhere"),
        ],
    )
    def test_what_is_none(self, schema: dict[str, Any], problem: str) -> None:
        with pytest.raises(ToolDeclarationError, match=problem):
            schema_to_pydantic_model(schema)
