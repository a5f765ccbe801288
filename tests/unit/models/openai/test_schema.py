import json
from typing import Any

from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

from callboard.models.openai.tool_calls import definitions_of, renamed_references, strict_schema


class Inner(BaseModel):
    size: int = 3


class Node(BaseModel):
    name: str
    children: list["Node"] = Field(default_factory=list)


class Outer(BaseModel):
    inner: Inner
    maybe: Inner | None = None
    kind: str = Field(default="a", description="Which one.")


class Anything(BaseModel):
    table: dict[str, int]


def test_every_object_is_closed_and_requires_everything() -> None:
    strict = strict_schema(Outer.model_json_schema())

    assert strict is not None
    assert strict["required"] == ["inner", "maybe", "kind"]
    assert strict["additionalProperties"] is False
    assert strict["$defs"]["Inner"]["required"] == ["size"]
    assert strict["$defs"]["Inner"]["additionalProperties"] is False
    assert strict["properties"]["kind"]["description"] == "Which one."
    assert "default" not in json.dumps(strict)


def test_the_schema_given_is_not_changed() -> None:
    schema = Outer.model_json_schema()
    before = json.dumps(schema)

    strict_schema(schema)

    assert json.dumps(schema) == before


def test_a_reference_stands_alone() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/A", "description": "x"},
            "b": {"allOf": [{"$ref": "#/$defs/A"}]},
        },
        "$defs": {"A": {"type": "string"}},
    }

    strict = strict_schema(schema)

    assert strict is not None
    assert strict["properties"] == {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/A"}}


def test_one_of_becomes_any_of() -> None:
    schema = {"oneOf": [{"type": "string"}, {"type": "null"}], "discriminator": {"propertyName": "x"}}

    assert strict_schema(schema) == {"anyOf": [{"type": "string"}, {"type": "null"}]}


def test_an_object_with_any_keys_can_not_be_strict() -> None:
    assert strict_schema(Anything.model_json_schema()) is None
    assert strict_schema({"type": "object"}) is None
    assert strict_schema({"type": "object", "properties": {}, "additionalProperties": True}) is None


def test_recursive_classes_work() -> None:
    strict = strict_schema(Node.model_json_schema())

    assert strict is not None
    assert strict["type"] == "object"
    assert strict["required"] == strict["$defs"]["Node"]["required"] == ["name", "children"]


def test_definitions_move_under_names_of_their_own() -> None:
    schema = Node.model_json_schema()

    assert renamed_references(schema, "f.") == {"$ref": "#/$defs/f.Node"}
    items = definitions_of(schema, "f.")["f.Node"]["properties"]["children"]["items"]
    assert items == {"$ref": "#/$defs/f.Node"}


SCALARS = st.sampled_from([{"type": "string"}, {"type": "integer", "default": 1}, True])
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(
            lambda properties: {"type": "object", "properties": properties}
        ),
        inner.map(lambda items: {"type": "array", "items": items}),
        st.lists(inner, min_size=1, max_size=3).map(lambda choices: {"anyOf": choices}),
    ),
    max_leaves=8,
)


@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)))
def test_making_a_schema_strict_twice_changes_nothing_more(schema: dict[str, Any]) -> None:
    once = strict_schema(schema)

    assert once is not None
    assert strict_schema(once) == once
