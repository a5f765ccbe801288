"""Answers against the JSON schemas that pydantic writes."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from callboard.core.people import misfit


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
    (Annotated[str, Field(pattern="^a+$")], "ab", "it has to look like ^a+$"),
    (set[int], [1, 1], "it does not fit `uniqueItems` of what is asked for"),
    (dict[Annotated[str, Field(pattern="^a$")], int], {"b": 1}, ""),
    (Any, {"what": ["ever"]}, ""),
]


@pytest.mark.parametrize(("cls", "value", "problem"), CASES)
def test_what_does_not_fit_is_named(cls: Any, value: Any, problem: str) -> None:
    assert misfit(TypeAdapter(cls).json_schema(), value) == problem


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/secret.json"},
        {"$ref": "file:///etc/passwd"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "http://127.0.0.1:9/secret.json"},
        {"$id": "http://127.0.0.1:9/", "$dynamicRef": "secret.json"},
    ],
)
def test_nothing_is_fetched(schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_: object, **__: object) -> None:
        pytest.fail("something was fetched")

    monkeypatch.setattr("urllib.request.urlopen", fetch)
    assert misfit(schema, "x") == ""


def test_a_pattern_that_python_does_not_know_passes() -> None:
    assert misfit({"pattern": r"\p{L}"}, "x") == ""


def test_what_refers_to_itself_for_ever_passes() -> None:
    assert misfit({"$ref": "#"}, "x") == ""
    assert misfit({"items": {"$ref": "#"}}, deep(5_000)) == ""


def deep(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize("schema", [{"type": 5}, {"properties": []}, {"pattern": 1}, {"required": "x"}])
def test_a_schema_that_is_none_is_said_so(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="its schema is none"):
        misfit(schema, "x")


def test_what_is_said_does_not_repeat_the_answer() -> None:
    schemas: list[dict[str, Any]] = [{"type": "integer"}, {"not": {}}, {"contains": {"type": "null"}}]
    for schema in schemas:
        assert "SECRET" not in misfit(schema, ["SECRET"])
