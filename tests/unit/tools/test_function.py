"""Functions as tools."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel

from callboard import CancellationToken, MessageContext
from callboard.tools import FunctionTool, tool, tool_context
from callboard.tools.errors import ToolArgumentsError, ToolDeclarationError, ToolEndedError
from callboard.tools.function import FunctionToolConfig
from callboard.tools.static import call
from tests.helpers.eventually import eventually
from tests.helpers.schemas import parameters

HERE = __name__


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Person(BaseModel):
    name: str
    friends: list[Person] = []


async def describe(
    person: Person, at: Point, colour: Colour = Colour.RED, extra: int | str | None = None
) -> str:
    """Says who is where.

    And more that the model is not told.
    """
    assert isinstance(person, Person)
    assert isinstance(at, Point)
    return f"{person.name} at {at.x},{at.y} in {colour.name}, {extra!r}"


@tool
def double(number: Annotated[int, "what to double"]) -> int:
    """Doubles a number."""
    return number * 2


def context(**changes: Any) -> MessageContext:
    values: dict[str, Any] = {"sender": None, "topic_id": None, "is_rpc": True, "message_id": "m1"}
    return MessageContext(**values, cancellation_token=CancellationToken(), **changes)


async def run(function: FunctionTool, **arguments: Any) -> Any:
    return await function.run_json(arguments, CancellationToken())


async def test_arguments_become_objects() -> None:
    made = FunctionTool(describe)
    assert made.name == "describe"
    assert made.description == "Says who is where."
    said = await run(
        made, person={"name": "Ada", "friends": [{"name": "B"}]}, at={"x": "1"}, colour="blue", extra=3
    )
    assert said == "Ada at 1,0 in BLUE, 3"
    assert await run(made, person={"name": "Ada"}, at={"x": 1}) == "Ada at 1,0 in RED, None"


async def test_an_ordinary_function_runs_in_a_thread_and_sees_the_context() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("seen")

    def where() -> tuple[int, str]:
        return threading.get_ident(), variable.get()

    thread, seen = await run(FunctionTool(where))
    assert thread != threading.get_ident()
    assert seen == "seen"


async def test_many_functions_that_hang_hold_nobody_up() -> None:
    release = threading.Event()

    def hang(number: int) -> int:
        release.wait(30)
        return number

    tasks = [asyncio.ensure_future(run(FunctionTool(hang), number=i)) for i in range(60)]
    assert await run(double, number=2) == 4
    release.set()
    assert await asyncio.gather(*tasks) == list(range(60))


async def test_a_function_that_returns_a_coroutine_is_awaited() -> None:
    async def answer() -> str:
        return "later"

    made = FunctionTool(lambda: answer(), "waits", name="lazy")  # noqa: PLW0108
    assert await run(made) == "later"


def test_a_decorated_function_can_still_be_called() -> None:
    assert double(4) == 8
    assert (double.name, double.description) == ("double", "Doubles a number.")
    assert inspect.getdoc(double) == "Doubles a number."
    assert FunctionTool(double).function is double.function


def test_the_decorator_takes_options() -> None:
    @tool(name="triple", description="Three times.", strict=True, timeout=2.0)
    async def function(number: int) -> int:
        return number * 3

    assert function.name == "triple"
    assert function.schema.get("strict") is True
    assert function.timeout == 2.0
    assert repr(function) == "<FunctionTool triple>"


def test_types_that_are_local_to_a_function_can_be_named() -> None:
    class Local(BaseModel):
        a: int

    @tool
    def local(it: Local) -> int:
        return it.a

    def other(it: Local) -> int:
        return it.a

    assert "a" in parameters(local.schema)["properties"]["it"]["properties"]
    assert FunctionTool(other).schema == {**local.schema, "name": "other"}


async def test_the_token_and_the_context_are_given_and_not_shown() -> None:
    async def inject(a: int, ctx: MessageContext, cancellation_token: CancellationToken) -> list[Any]:
        return [a, ctx.message_id, cancellation_token.is_cancelled()]

    made = FunctionTool(inject)
    assert list(parameters(made.schema)["properties"]) == ["a"]
    with tool_context(context()):
        assert await run(made, a=1) == [1, "m1", False]
    with pytest.raises(ToolEndedError, match="tool_context"):
        await run(made, a=1)
    with pytest.raises(ToolArgumentsError, match="ctx: there is no such argument"):
        await run(made, a=1, ctx={})


async def test_a_context_may_be_missing_where_it_is_optional() -> None:
    def maybe(ctx: MessageContext | None = None) -> bool:
        return ctx is None

    assert await run(FunctionTool(maybe)) is True


async def test_an_argument_that_does_not_exist_is_refused_and_the_nearest_named() -> None:
    with pytest.raises(ToolArgumentsError) as caught:
        await run(double, nummer=2)
    assert caught.value.problems == (
        "number: Field required",
        "nummer: there is no such argument. Did you mean 'number'?",
    )


def stopping() -> None:
    raise StopIteration("odd")


class OddError(Exception):
    pass


def failing() -> None:
    raise OddError("odd")


async def test_errors_come_out_of_the_thread() -> None:
    with pytest.raises(OddError):
        await run(FunctionTool(failing))
    with pytest.raises(RuntimeError, match="StopIteration"):
        await run(FunctionTool(stopping))


async def test_a_function_in_a_thread_sees_that_it_was_cancelled() -> None:
    begun, ended = threading.Event(), threading.Event()

    def polite(cancellation_token: CancellationToken) -> None:
        begun.set()
        while not cancellation_token.is_cancelled():
            ended.wait(0.01)
        ended.set()

    token = CancellationToken()
    calling = asyncio.ensure_future(call(FunctionTool(polite), "polite", None, token, None, None))
    await eventually(begun.is_set)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await eventually(ended.is_set)


async def yielding() -> AsyncGenerator[int, None]:
    yield 1


@pytest.mark.parametrize(
    ("function", "problem"), [(yielding, "derive a class"), (3, "no function"), (Person, "no function")]
)
def test_what_is_no_function(function: Any, problem: str) -> None:
    with pytest.raises(ToolDeclarationError, match=problem):
        FunctionTool(function, name="odd")


def test_strict_refuses_defaults() -> None:
    with pytest.raises(ToolDeclarationError, match="colour has a default; extra has a default"):
        FunctionTool(describe, strict=True)


async def test_a_config_names_the_function_and_makes_the_tool_again() -> None:
    made = FunctionTool(describe, "Who is where?", "who", timeout=3)
    config = made.to_config()
    assert config.function.endswith(":describe")
    again = FunctionTool.from_config(FunctionToolConfig.model_validate_json(config.model_dump_json()))
    assert again.schema == made.schema
    assert again.function is describe
    assert again.timeout == 3


def test_the_config_of_a_decorated_function_leads_back_to_it() -> None:
    again = FunctionTool.from_config(double.to_config())
    assert again.function is double.function


@pytest.mark.parametrize(
    "function", [lambda: 1, functools.partial(describe, extra=1), CancellationToken().cancel]
)
def test_a_function_without_a_name_of_its_own_has_no_config(function: Any) -> None:
    with pytest.raises(ToolDeclarationError):
        FunctionTool(function, name="odd").to_config()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["person", "at", "colour", "extra", "name", "x", "y"]) | st.text(max_size=5)


@settings(max_examples=50)
@given(JSON | st.dictionaries(NAMES, JSON | st.dictionaries(NAMES, JSON)))
def test_whatever_a_model_writes_gives_a_result(arguments: Any) -> None:
    made = FunctionTool(describe)
    result = asyncio.run(call(made, "describe", arguments, None, None, None))
    result.model_dump_json()
    if not result.is_error:
        assert " at " in result.to_text()
