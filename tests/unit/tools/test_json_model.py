"""Models from JSON schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from mcp_types import Tool
from pydantic import ValidationError

from callboard.tools import HttpTool
from callboard.tools.base import validated
from callboard.tools.errors import ToolArgumentsError, ToolDeclarationError
from callboard.tools.json_model import given_arguments, model_of_parameters, schema_to_pydantic_model
from callboard.tools.json_schema import references
from callboard.tools.mcp import _schema
from callboard.tools.schema import to_parameters
from tests.helpers.schemas import parameters as parameters_in

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
    return checked(SCHEMA, arguments)


def checked(schema: dict[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool with this schema is given of the arguments of a model."""
    parameters = to_parameters(schema, "t")
    return given_arguments(validated(model_of_parameters(parameters, "t"), dict(arguments), "t"), parameters)


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
    assert checked(schema, {"a": 1}) == {"a": 1}


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


NODE: dict[str, Any] = {
    "type": "object",
    "description": "A part of a tree.",
    "properties": {
        "value": {"type": "integer", "description": "Its weight."},
        "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    },
    "required": ["value"],
}
DEFINED = {"$defs": {"Node": NODE}}
BASE = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
LIST = {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/List"}]}}

#: By name: a schema, what fits it, and what does not.
SCHEMAS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = {
    "a reference at the top": (
        {"$ref": "#/$defs/Node", **DEFINED},
        [{"value": 1}, {"value": 1, "kids": [{"value": 2, "kids": []}]}],
        [{}, {"value": 1, "kids": [{}]}, {"value": 1, "kids": [{"value": 2, "kids": [{"value": "x"}]}]}],
    ),
    "a reference to the whole": (
        {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#"}}},
        [{"v": 1, "next": {"v": 2, "next": {"v": 3}}}],
        [{"v": 1, "next": {"v": "x"}}, {"next": {"next": {"z": 1}}}],
    ),
    "recursive items": (
        {
            "type": "object",
            "properties": {"all": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            **DEFINED,
        },
        [{"all": [{"value": 1, "kids": [{"value": 2}]}]}],
        [{"all": [{"value": "x"}]}, {"all": [{"value": 1, "kids": [{"value": "x"}]}]}],
    ),
    "a recursive list": (
        {"type": "object", "properties": {"list": {"$ref": "#/$defs/List"}}, "$defs": {"List": LIST}},
        [{"list": [1, [2, [3, []]]]}],
        [{"list": [1, ["x"]]}, {"list": 1}],
    ),
    "recursive values": (
        {
            "type": "object",
            "properties": {"map": {"$ref": "#/$defs/Map"}},
            "$defs": {"Map": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Map"}}},
        },
        [{"map": {"a": {"b": {}}}}],
        [{"map": {"a": {"b": 1}}}],
    ),
    "two that contain each other": (
        {
            "$ref": "#/$defs/A",
            "$defs": {
                "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
                "B": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}, "n": {"type": "integer"}}},
            },
        },
        [{"b": {"a": {"b": {"n": 1}}}}],
        [{"b": {"a": {"b": {"n": "x"}}}}, {"a": {}}],
    ),
    "all of some at the top": (
        {
            "allOf": [
                BASE,
                {"properties": {"name": {"type": "string"}}, "required": ["name"]},
                {"required": ["id"]},
            ]
        },
        [{"id": 1, "name": "a"}],
        [{"id": 1}, {"name": "a"}, {"id": "x", "name": "a"}, {"id": 1, "name": "a", "z": 1}],
    ),
    "all of references at the top": (
        {
            "allOf": [{"$ref": "#/$defs/Base"}, {"$ref": "#/$defs/Node"}],
            "$defs": {"Base": BASE, "Node": NODE},
        },
        [{"id": 1, "value": 2, "kids": [{"value": 3}]}],
        [{"id": 1}, {"value": 1}, {"id": 1, "value": 2, "kids": [{"id": 3}]}],
    ),
    "a recursive one that extends another": (
        {
            "$ref": "#/$defs/Tree",
            "$defs": {
                "Base": BASE,
                "Tree": {
                    "allOf": [
                        {"$ref": "#/$defs/Base"},
                        {"properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}},
                    ]
                },
            },
        },
        [{"id": 1, "kids": [{"id": 2, "kids": []}]}],
        [{"id": 1, "kids": [{"kids": []}]}, {"kids": []}],
    ),
    "all of one, as older pydantic writes it": (
        {
            "type": "object",
            "properties": {"a": {"allOf": [{"$ref": "#/$defs/Base"}], "description": "A.", "default": None}},
            "$defs": {"Base": BASE},
        },
        [{"a": {"id": 1}}, {}],
        [{"a": {}}, {"a": {"id": "x"}}],
    ),
    "a property in two parts": (
        {
            "allOf": [
                {"properties": {"a": {"type": "string", "minLength": 2}}},
                {"properties": {"a": {"type": "string", "maxLength": 3}}},
            ]
        },
        [{"a": "xx"}],
        [{"a": "x"}, {"a": "xxxx"}],
    ),
    "alternatives at the top": (
        {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}},
                    "required": ["kind"],
                },
                {
                    "type": "object",
                    "properties": {"kind": {"const": "b"}, "y": {"type": "integer"}},
                    "required": ["kind"],
                },
            ]
        },
        [{"kind": "a", "x": 1}, {"kind": "b", "y": 1}],
        [{"kind": "c"}, {"x": 1}, {"kind": "a", "x": "x"}],
    ),
    "older definitions": (
        {"type": "object", "properties": {"a": {"$ref": "#/definitions/A b"}}, "definitions": {"A b": BASE}},
        [{"a": {"id": 1}}],
        [{"a": {}}],
    ),
    "a reference to a place": (
        {"type": "object", "properties": {"a": BASE, "b": {"$ref": "#/properties/a"}}},
        [{"b": {"id": 1}}],
        [{"b": {}}],
    ),
    "properties with the names of keywords": (
        {
            "type": "object",
            "properties": {
                "$ref": {"type": "string"},
                "default": {"$ref": "#/$defs/Base"},
                "allOf": {"type": "integer"},
                "properties": {"type": "object", "properties": {"enum": {"type": "integer"}}},
            },
            "$defs": {"Base": BASE},
        },
        [{"$ref": "x", "default": {"id": 1}, "allOf": 3, "properties": {"enum": 1}}],
        [{"$ref": 1}, {"default": {}}, {"allOf": "x"}, {"properties": {"enum": "x"}}],
    ),
    "data that look like references": (
        {"type": "object", "properties": {"a": {"type": "object", "examples": [{"$ref": "#/nowhere"}]}}},
        [{"a": {}}],
        [{"a": 1}],
    ),
    "values of a type": (
        {
            "type": "object",
            "properties": {"a": {"type": "object", "additionalProperties": {"type": "integer"}}},
        },
        [{"a": {"x": 1}}],
        [{"a": {"x": "y"}}],
    ),
    "nothing but itself": (
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}},
        [{"a": 1}],
        [{"b": 1}],
    ),
    "itself among alternatives": (
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "integer"}]}},
        },
        [{"a": 1}],
        [{"a": "x"}],
    ),
    "all of itself": (
        {"$ref": "#/$defs/A", "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}, BASE]}}},
        [{"id": 1}],
        [{"id": "x"}],
    ),
    "a pattern that no one finds in linear time": (
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!x)"}}},
        [{"a": "y"}],
        [{"a": 1}],
    ),
    "closed and empty": (
        {"type": "object", "additionalProperties": False},
        [{}],
        [{"a": 1}],
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
class TestAnySchema:
    def test_what_fits_is_taken_and_what_does_not_is_refused(self, name: str) -> None:
        schema, fitting, others = SCHEMAS[name]
        made = schema_to_pydantic_model(schema)
        for data in fitting:
            assert made.model_validate(data).model_dump(by_alias=True, exclude_unset=True) == data
            assert checked(schema, data).items() >= data.items()
        for data in others:
            with pytest.raises(ValidationError):
                made.model_validate(data)
            with pytest.raises(ToolArgumentsError):
                checked(schema, data)

    def test_models_are_shown_what_there_is(self, name: str) -> None:
        schema, fitting, _ = SCHEMAS[name]
        parameters = to_parameters(schema, "t")
        assert all(key in parameters["properties"] for data in fitting for key in data)
        assert set(references(parameters)) <= {f"#/$defs/{one}" for one in parameters.get("$defs", {})}

    def test_the_schema_of_the_model_makes_it_again(self, name: str) -> None:
        schema, fitting, others = SCHEMAS[name]
        again = schema_to_pydantic_model(schema_to_pydantic_model(schema).model_json_schema())
        for data in fitting:
            again.model_validate(data)
        for data in others:
            with pytest.raises(ValidationError):
                again.model_validate(data)


@pytest.mark.parametrize("name", ["a reference at the top", "all of some at the top", "recursive items"])
def test_tools_of_others_have_such_schemas(name: str) -> None:
    schema, fitting, _ = SCHEMAS[name]
    http = HttpTool("t", "example.org", 443, schema, path="/a")
    theirs = _schema(Tool(name="t", input_schema={"type": "object", **schema}))
    for data in fitting:
        assert data.keys() <= parameters_in(http.schema)["properties"].keys()
        assert data.keys() <= parameters_in(theirs)["properties"].keys()
        assert http.args_type().model_validate(data).model_dump(by_alias=True, exclude_unset=True) == data


def test_a_path_may_have_what_a_reference_describes() -> None:
    schema = {"$ref": "#/$defs/Base", "$defs": {"Base": BASE}}
    assert HttpTool("t", "example.org", 443, schema, path="/{id}").name == "t"
    with pytest.raises(ToolDeclarationError, match="required property"):
        HttpTool("t", "example.org", 443, schema, path="/{other}")


@pytest.mark.parametrize(
    ("reference", "leads"),
    [
        ("#/$defs/a%20b", True),
        ("#/$defs/a~1b", True),
        ("#anchor", False),
        ("#/$defs/none", False),
        ("other.json", False),
    ],
)
def test_where_a_reference_leads(reference: str, leads: bool) -> None:
    schema = {"properties": {"a": {"$ref": reference}}, "$defs": {"a b": BASE, "a/b": BASE}}
    if leads:
        with pytest.raises(ValidationError):
            schema_to_pydantic_model(schema).model_validate({"a": {}})
        return
    with pytest.raises(ToolDeclarationError, match="leads nowhere"):
        schema_to_pydantic_model(schema)


def test_descriptions_are_kept() -> None:
    schema = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                **NODE,
                "properties": {
                    **NODE["properties"],
                    "tag": {
                        "type": "array",
                        "title": "Tags",
                        "items": {"type": "string", "description": "One word."},
                    },
                    "place": {
                        "type": "object",
                        "description": "Where.",
                        "properties": {"x": {"type": "number"}},
                    },
                },
            }
        },
    }
    made = schema_to_pydantic_model(schema, "Tree")
    shown = made.model_json_schema(by_alias=True)
    text = str(shown)
    assert made.__doc__ == "A part of a tree."
    for description in ("A part of a tree.", "Its weight.", "One word.", "Where.", "Tags"):
        assert description in text


def test_references_that_grow_by_powers_of_two_are_kept() -> None:
    definitions: dict[str, Any] = {
        f"D{n}": {"type": "object", "properties": {key: {"$ref": f"#/$defs/D{n + 1}"} for key in "ab"}}
        for n in range(40)
    }
    schema = {"$ref": "#/$defs/D0", "$defs": {**definitions, "D40": BASE}}
    assert len(str(to_parameters(schema, "t"))) < 1_000_000
    made: Any = schema_to_pydantic_model(schema)
    assert made.model_validate({"a": {"b": {"a": {}}}}).a.b.a is not None


@pytest.mark.parametrize(
    "properties",
    [
        [],
        {"a": {"required": True, "type": "string"}},
        {"a": {"properties": 3}},
        {"a": {"allOf": [1]}},
        {"a": {"allOf": [{"type": "string"}, {"type": "integer"}]}},
        {"a": {"anyOf": 3}},
        {"a": {"enum": []}},
        {"a": {"type": [], "minLength": "x"}},
        {"a": {"items": [{"type": "string"}], "type": "array"}},
        {"a": {"$ref": "https://example.org/schema"}},
        {"a": {"$ref": 3}},
        {"a": False},
    ],
)
def test_odd_schemas_are_no_reason_to_fail(properties: Any) -> None:
    parameters = to_parameters({"type": "object", "properties": properties}, "t")
    model_of_parameters(parameters, "t").model_validate({})
