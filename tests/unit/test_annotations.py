"""The annotations of this module are strings, as in most users' modules."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType, Optional, TypeVar, Union

import pytest
from pydantic import BaseModel

from callboard import RoutedAgent, event, rpc
from callboard.core.handlers import HandlerSignature, classes_of
from callboard.errors import DeclarationError

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]

    from callboard import MessageContext

Name = NewType("Name", str)
T = TypeVar("T")


@dataclass
class Visit:
    name: str


class Model(BaseModel):
    name: str


class Early(RoutedAgent):
    @rpc
    async def on_late(self, message: Late | Visit, ctx: MessageContext) -> Later | None: ...


class Late(BaseModel):
    pass


class Later(BaseModel):
    pass


@pytest.mark.parametrize(
    ("annotation", "classes"),
    [
        (Visit, (Visit,)),
        (None, (type(None),)),
        (Any, (object,)),
        (object, (object,)),
        (Visit | Model, (Visit, Model)),
        (Union[Visit, Model, Visit], (Visit, Model)),  # noqa: UP007, RUF100
        (Optional[Visit], (Visit, type(None))),  # noqa: UP045, RUF100
        (Literal["a", "b", 1], (str, int)),
        (Name, (str,)),
        (list, (list,)),
        (list[str], (list,)),
        (dict[str, Any], (dict,)),
        (dict[str, list[int | None]], (dict,)),
        (list[Visit], None),
        (dict[str, list[Model]], None),
        (Visit | list[Model], None),
        (Callable[[], None], None),
        (T, None),
        ("text", None),
        (5, None),
    ],
)
def test_classes_of(annotation: Any, classes: tuple[type, ...] | None) -> None:
    assert classes_of(annotation) == classes


def test_a_class_that_is_defined_later_in_the_module_is_found_when_needed() -> None:
    assert Early.handled_types() == (Late, Visit)
    assert Early.produced_types() == (Later,)


def test_local_classes_are_found() -> None:
    @dataclass
    class Visit:  # hides the one of the module
        name: str

    class Local(RoutedAgent):
        class Inner(BaseModel):
            pass

        @event
        async def on_visit(self, message: Visit, ctx: MessageContext) -> None: ...

        @rpc()
        async def on_inner(self, message: Inner, ctx: MessageContext) -> Inner:
            return message

    assert Local.handled_types() == (Visit, Local.Inner)


def make_agent() -> type[RoutedAgent]:
    class Made(RoutedAgent):
        @event
        async def on_visit(self, message: Visit, ctx: MessageContext) -> None: ...

    return Made


def test_local_names_of_a_caller_are_not_looked_at() -> None:
    class Visit:
        pass

    assert make_agent().handled_types() != (Visit,)


def test_annotated_types_and_forward_references_inside_of_types_are_read() -> None:
    class Agent(RoutedAgent):
        @event
        async def on_visit(self, message: Annotated[Visit, "why"], ctx: MessageContext) -> None: ...

        @rpc
        async def on_late(self, message: Optional["Late"], ctx: MessageContext) -> None: ...  # noqa: UP037, UP045

    assert Agent.handled_types() == (Visit, Late)


def test_a_name_that_is_nowhere_is_an_error_when_the_class_is_used() -> None:
    class Agent(RoutedAgent):
        @event
        async def on_unknown(self, message: Unknown, ctx: MessageContext) -> None: ...

    for use in (Agent, Agent.handled_types):
        with pytest.raises(
            AssertionError, match="the name 'Unknown' in its annotations can't be found"
        ) as raised:
            use()
        assert "on_unknown" in str(raised.value)


def test_an_annotation_that_is_no_python_is_an_error() -> None:
    async def handle(self: Any, message: Visit, ctx: Any) -> None: ...

    handle.__annotations__["message"] = "1 +"
    with pytest.raises(DeclarationError, match="its annotations can't be read"):
        event(handle)


def test_a_function_under_other_decorators_is_read() -> None:
    def traced(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    class Agent(RoutedAgent):
        @event
        @traced
        async def on_visit(self, message: Visit, ctx: MessageContext) -> None: ...

    assert Agent.handled_types() == (Visit,)


def test_partials_and_callable_objects_are_read() -> None:
    async def handle(more: int, agent: Any, message: Visit, ctx: Any) -> None: ...

    class Handler:
        async def __call__(self, agent: Any, message: Visit, ctx: Any) -> None: ...

    for function in (functools.partial(handle, 1), Handler(), Handler().__call__):
        assert HandlerSignature(function).types.accepts == (Visit,)
