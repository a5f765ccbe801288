"""What type checkers know of responses. Every ignored line is an error that mypy and pyright have to find.

Both check the tests too, and complain of a comment that ignores nothing.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, assert_type

import pytest
from pydantic import BaseModel

from callboard import (
    AgentId,
    AgentProxy,
    AgentRuntime,
    App,
    ClosureContext,
    MessageContext,
    RedisAgentRuntime,
    Request,
    RoutedAgent,
    event,
    message_handler,
    rpc,
)
from callboard.core.protocol import UNKNOWN, response_of
from callboard.errors import DeclarationError
from tests.helpers.runtimes import Note

CLERK = AgentId("clerk", "a")


class Count(BaseModel):
    """A response."""

    number: int = 0


class Exact(Count):
    """A better one."""


class HowMany(BaseModel, Request[Count]):
    """A request as a model."""


class HowManyElse(Request["Count"], BaseModel):
    """The base first, the response as a string."""


@dataclass(slots=True)
class HowMuch(Request[int]):
    """A request as a dataclass."""

    unit: str = ""


class _Named(NamedTuple):
    unit: str


class HowLong(_Named, Request[float | None]):
    """A request as a named tuple."""


class HowManyToday(HowMany):
    """Inherits its response."""


class Later(BaseModel, Request["Sooner"]):  # type: ignore[name-defined]
    """Its response is defined later."""


class Forget(BaseModel, Request[None]):
    """Answered by nothing."""


class Open(BaseModel):
    """Says nothing of its response."""


async def everybody_who_asks(
    agent: RoutedAgent,
    runtime: RedisAgentRuntime,
    any_runtime: AgentRuntime,
    ctx: ClosureContext,
    proxy: AgentProxy,
) -> None:
    """Is read by type checkers only."""
    assert_type(await agent.send_message(HowMany(), CLERK), Count)
    assert_type(await agent.send_message(HowManyToday(), "clerk/a"), Count)
    assert_type(await agent.send_message(HowManyElse(), CLERK, timeout=3), Count)
    assert_type(await runtime.send_message(HowMuch(), CLERK), int)
    assert_type(await any_runtime.send_message(HowLong("s"), CLERK), float | None)
    assert_type(await ctx.send_message(HowMany(), CLERK), Count)
    assert_type(await proxy.send_message(HowMany()), Count)
    assert_type(await agent.send_message(Open(), CLERK), Any)
    assert_type(await proxy.send_message("text"), Any)
    number = await agent.send_message(HowMuch(), CLERK)
    text: str = number  # type: ignore[assignment]
    count = await agent.send_message(HowMany(), CLERK)
    assert count.numbr  # type: ignore[attr-defined]
    await agent.send_message(HowMany(), 5)  # type: ignore[call-overload]
    await agent.send_message(HowMany(), CLERK, delay=5)  # type: ignore[call-overload]
    assert text


@pytest.mark.parametrize(
    ("request_class", "response"),
    [
        (HowMany, Count),
        (HowManyElse, Count),
        (HowMuch, int),
        (HowLong, float | None),
        (HowManyToday, Count),
        (Forget, type(None)),
        (Open, UNKNOWN),
        (int, UNKNOWN),
    ],
)
def test_the_response_of_a_request(request_class: type[Any], response: object) -> None:
    assert response_of(request_class) == response


def test_a_request_is_a_message_like_any_other() -> None:
    assert HowMany.model_validate_json(HowMany().model_dump_json()) == HowMany()
    assert HowMuch("g") == HowMuch(unit="g")


class Clerk(RoutedAgent):
    """Answers as the requests say."""

    @rpc
    async def on_how_many(self, message: HowMany | HowManyElse, ctx: MessageContext) -> Exact:
        return Exact(number=1)

    @rpc
    async def on_how_much(self, message: HowMuch, ctx: MessageContext) -> Any: ...

    @rpc
    async def on_some(self, message: HowLong | Forget, ctx: MessageContext) -> float | None: ...

    @message_handler
    async def on_open(self, message: Open | HowMany, ctx: MessageContext) -> Count | str:
        return ""

    @event
    async def on_noticed(self, message: HowMany, ctx: MessageContext) -> None:
        """An event is answered by nothing, whatever its class says."""


def test_handlers_that_fit() -> None:
    assert len(Clerk().handled_types()) == 6


async def _wrong(self: Any, message: HowMany, ctx: MessageContext) -> Note:
    return Note()


async def _nothing(self: Any, message: HowMany, ctx: MessageContext) -> None: ...


async def _both(self: Any, message: HowMany, ctx: MessageContext) -> Count | None: ...


async def _one_of_two(self: Any, message: HowMany | HowMuch, ctx: MessageContext) -> Count:
    return Count()


@pytest.mark.parametrize("decorator", [rpc, message_handler])
@pytest.mark.parametrize("function", [_wrong, _nothing, _both, _one_of_two])
def test_a_handler_that_answers_something_else_is_refused(
    decorator: Callable[[Any], Any], function: Callable[..., Any]
) -> None:
    with pytest.raises(DeclarationError, match=r"a Request\[(Count|int)\]: return that"):
        decorator(function)


def test_a_closure_that_answers_something_else_is_refused() -> None:
    async def answer(agent: ClosureContext, message: HowMany, ctx: MessageContext) -> str:
        return ""

    with pytest.raises(DeclarationError, match=r"it returns str, and HowMany is a Request\[Count\]"):
        App("app").closure("answer")(answer)


def test_a_response_that_is_defined_later_is_checked_when_the_agent_is_made() -> None:
    class Early(RoutedAgent):
        """Is declared before the response is there."""

        @rpc
        async def on_later(self, message: Later, ctx: MessageContext) -> Note:
            return Note()

    globals()["Sooner"] = Count
    try:
        with pytest.raises(DeclarationError, match=r"Later is a Request\[Count\]"):
            Early()
    finally:
        del globals()["Sooner"]
