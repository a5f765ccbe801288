"""Reading the signatures of functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, Field

from callboard import CancellationToken, MessageContext
from callboard.tools.errors import ToolDeclarationError
from callboard.tools.schema import Injected, name_of, parameters_of, read_signature

if TYPE_CHECKING:
    from decimal import Decimal as Unseen


def everything(
    a: int,
    b: Annotated[str, "what b is"],
    c: Annotated[float, Field(description="what c is", ge=0)] = 1.0,
    *,
    stop: CancellationToken,
    ctx: MessageContext,
    also: MessageContext | None = None,
    cancellation_token: Any = None,
) -> str:
    return ""


def test_arguments_and_what_is_injected() -> None:
    found = read_signature(everything, "everything")
    assert list(found.fields) == ["a", "b", "c"]
    assert found.injected == {
        "stop": Injected.TOKEN,
        "ctx": Injected.CONTEXT,
        "also": Injected.OPTIONAL_CONTEXT,
        "cancellation_token": Injected.TOKEN,
    }
    assert found.needs_context
    assert found.returns is str
    properties = parameters_of(found.model, "everything")["properties"]
    assert "description" not in properties["a"]
    assert properties["b"]["description"] == "what b is"
    assert properties["c"] == {
        "default": 1.0,
        "description": "what c is",
        "minimum": 0,
        "type": "number",
    }


def test_names_that_pydantic_gives_a_meaning() -> None:
    def odd(schema: str, copy: int, _private: int, model_config: str, json: int) -> None: ...

    found = read_signature(odd, "odd")
    values = {"schema": "s", "copy": 1, "_private": 2, "model_config": "m", "json": 3}
    args = found.model.model_validate(values)
    assert found.arguments(args, CancellationToken(), None) == ([], values)
    assert list(found.model.model_json_schema()["properties"]) == list(values)


def test_parameters_that_have_no_name_for_callers() -> None:
    def power(base: int, /, exponent: int = 2) -> int:
        return int(base**exponent)

    found = read_signature(power, "power")
    positional, named = found.arguments(found.model(base=3), CancellationToken(), None)
    assert power(*positional, **named) == 9


def test_a_model_of_ones_own_will_do() -> None:
    class Own(BaseModel):
        schema_: str = "x"
        a: int

    def plain(a: int) -> None: ...

    found = read_signature(plain, "plain")
    assert found.arguments(Own(a=1), CancellationToken(), None) == ([], {"a": 1})


class Adder:
    def add(self, a: int) -> int:
        return a

    def __call__(self, b: int) -> int:
        return b


@pytest.mark.parametrize(
    ("function", "name", "fields"),
    [
        (Adder().add, "add", ["a"]),
        (Adder(), "Adder", ["b"]),
        (functools.partial(everything, also=None), "everything", ["a", "b", "c"]),
        (functools.partial(functools.partial(Adder.add, Adder())), "add", ["a"]),
    ],
)
def test_all_kinds_of_functions(function: Callable[..., Any], name: str, fields: list[str]) -> None:
    assert name_of(function) == name
    assert list(read_signature(function, name).fields) == fields


def no_type(a) -> None: ...  # type: ignore[no-untyped-def]


def variadic(*values: int) -> None: ...


def keywords(**values: int) -> None: ...


def unseen(a: Unseen) -> None: ...


def arbitrary(a: Adder) -> None: ...


def broken(a: "int[") -> None: ...  # type: ignore[valid-type]  # noqa: F722


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (no_type, "give the parameter 'a' a type"),
        (variadic, r"what \*values takes"),
        (keywords, r"what \*\*values takes"),
        (unseen, "the name 'Unseen' in its annotations can't be found"),
        (arbitrary, "pydantic can't describe its arguments"),
        (broken, "its annotations can't be read"),
    ],
)
def test_what_can_not_be_a_tool(function: Callable[..., Any], problem: str) -> None:
    with pytest.raises(ToolDeclarationError, match=problem) as caught:
        read_signature(function, "odd")
    assert isinstance(caught.value, ValueError)


def test_what_annotated_says_of_the_result_is_no_part_of_its_class() -> None:
    def count() -> Annotated[int, "of the words"]:
        return 1

    assert read_signature(count, "count").returns is int
