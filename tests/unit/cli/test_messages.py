"""Messages from the command line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from callboard.broker import MessageRegistry
from callboard.cli.exits import BAD_USE, CommandFailed
from callboard.cli.messages import MessageForm, parse_fields


class Address(BaseModel):
    city: str


class Visit(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    age: int = 0
    born: date | None = None
    tags: list[str] = []
    address: Address | None = None
    kind: str = Field(default="", alias="type")


@dataclass
class Point:
    x: int
    y: int


@pytest.fixture
def registry() -> MessageRegistry:
    made = MessageRegistry()
    made.register(Visit, Point)
    return made


@pytest.fixture
def form(registry: MessageRegistry) -> MessageForm:
    return MessageForm(registry, "Visit")


def test_fields_become_values_of_their_types(form: MessageForm) -> None:
    visit = form.from_fields(
        ["name=Ada", "age=36", "born=1815-12-10", 'tags=["a","b"]', 'address={"city":"London"}', "type=vip"]
    )
    assert visit == Visit(
        name="Ada",
        age=36,
        born=date(1815, 12, 10),
        tags=["a", "b"],
        address=Address(city="London"),
        type="vip",
    )


@pytest.mark.parametrize("name", ["2024", "true", "null", "1e5", '{"a":1}', "a=b", "", "NaN"])
def test_a_text_field_takes_what_looks_like_json(form: MessageForm, name: str) -> None:
    assert form.from_fields([f"name={name}"]).name == name


def test_dataclasses_and_simple_values(registry: MessageRegistry) -> None:
    assert MessageForm(registry, "Point").from_fields(["x=1", "y=2"]) == Point(1, 2)
    assert MessageForm(registry, "str").from_json('"hello"') == "hello"
    assert MessageForm(registry, "int").from_json("3") == 3


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ([], "this is no Visit: the field 'name' is missing"),
        (["nam=Ada"], "there is no field 'nam'. Did you mean 'name'?"),
        (["name=Ada", "name=Grace"], "the field 'name' is given twice"),
        (["Ada"], "'Ada' is not of the form field=value: write name=Ada"),
        (["name=Ada", "3 4"], "'3 4' is not of the form field=value: write 'age=3 4'"),
        (["name=Ada", "age=old"], "the field 'age': Input should be a valid integer"),
        (["name=Ada", "address={}"], "the field 'address.city' is missing"),
        (["name=Ada", "tags=[1]"], "the field 'tags"),
    ],
)
def test_a_value_that_does_not_fit_names_its_field(
    form: MessageForm, fields: list[str], sentence: str
) -> None:
    with pytest.raises(CommandFailed) as caught:
        form.from_fields(fields)
    assert sentence in str(caught.value)
    assert caught.value.code == BAD_USE


def test_what_has_no_fields_is_given_as_json(registry: MessageRegistry) -> None:
    with pytest.raises(
        CommandFailed, match="str has no fields: give it as JSON, such as --body '\"hello you\"'"
    ):
        MessageForm(registry, "str").from_fields(["hello", "you"])
    with pytest.raises(CommandFailed, match=r"such as --body 3$"):
        MessageForm(registry, "int").from_fields(["3"])


def test_json_that_does_not_fit_names_the_fields(form: MessageForm) -> None:
    with pytest.raises(CommandFailed, match=r"there is no field 'nmae'\. Did you mean 'name'\?"):
        form.from_json('{"nmae": "Ada"}')
    with pytest.raises(CommandFailed, match="this is no JSON"):
        form.from_json("{")
    with pytest.raises(CommandFailed, match="this is no Visit"):
        form.from_json("[1]")


def test_many_errors_are_cut(registry: MessageRegistry) -> None:
    class Wide(BaseModel):
        a: int
        b: int
        c: int
        d: int
        e: int

    registry.register(Wide)
    with pytest.raises(CommandFailed, match="and 2 more"):
        MessageForm(registry, "Wide").from_json("{}")


def test_an_unknown_type_names_the_nearest(registry: MessageRegistry) -> None:
    with pytest.raises(CommandFailed, match=r"no message type 'Vist'\. Did you mean 'Visit'\?"):
        MessageForm(registry, "Vist")
    with pytest.raises(CommandFailed, match=r"There are: Point, Visit\."):
        MessageForm(registry, "Something")


@pytest.mark.parametrize(
    ("text", "value"), [("a=1", 1), ("a=x", "x"), ("a=null", None), ("a=", ""), ("a=Infinity", "Infinity")]
)
def test_values_are_json_where_that_fits(text: str, value: Any) -> None:
    assert parse_fields([text]) == {"a": value}
