"""A call of a tool, and what becomes of every way in which it can go wrong."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import CancellationToken
from callboard.broker.errors import FencedError, ServerUnavailableError
from callboard.tools import BaseStreamTool, FunctionTool, ToolResult
from callboard.tools.static import call, call_stream


class Nothing(BaseModel):
    pass


class Stream(BaseStreamTool[Nothing, Any, Any]):
    def __init__(self, *items: Any) -> None:
        super().__init__(Nothing, object, "stream", "Yields.")
        self._items = items

    async def run_stream(
        self, args: Nothing, cancellation_token: CancellationToken
    ) -> AsyncGenerator[Any, None]:
        for item in self._items:
            if isinstance(item, BaseException):
                raise item
            yield item
            await asyncio.sleep(0)


def raises() -> None:
    raise KeyError("x")


def exits() -> None:
    sys.exit("bye")


async def hangs() -> None:
    await asyncio.Event().wait()


async def blocks() -> object:
    return object()


def group() -> None:
    raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])


class RudeError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def rude() -> None:
    raise RudeError


def base() -> None:
    raise BaseException("not even an Exception")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (raises, "KeyError: 'x'"),
        (exits, "exits gave no result: it ended itself with SystemExit"),
        (hangs, "hangs did not end within 0.05 s and was given up"),
        (blocks, "can't be shown as text: a object"),
        (group, "ValueError: one\nKeyError: 'two'"),
        (rude, "RudeError: its text can't be made: RuntimeError"),
        (base, "BaseException: not even an Exception"),
    ],
)
async def test_everything_that_goes_wrong_is_a_result(function: Any, text: str) -> None:
    limit = 0.05 if function is hangs else None
    result = await call(FunctionTool(function), function.__name__, None, None, None, limit)
    assert result.is_error
    assert result.name == function.__name__
    assert text in result.to_text()


async def test_a_tools_own_limit_comes_first() -> None:
    slow = FunctionTool(lambda: asyncio.sleep(0.05, "done"), "waits", name="slow", timeout=10)
    assert (await call(slow, "slow", None, None, None, 0.01)).to_text() == "done"


async def test_payloads_of_errors_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await call(FunctionTool(raises), "raises", None, None, None, None)
    assert "the tool raises failed with KeyError" in caplog.text
    assert "'x'" not in caplog.text


async def test_keyboard_interrupts_are_not_swallowed() -> None:
    class Interrupted(FunctionTool):
        def return_value_as_string(self, value: Any) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await call(Interrupted(lambda: 1, "x", name="i"), "i", None, None, None, None)


@pytest.mark.parametrize("error", [FencedError("w"), ServerUnavailableError("redis://x", "down")])
async def test_what_takes_the_message_away_is_raised(error: Exception) -> None:
    async def fails() -> None:
        raise error

    with pytest.raises(type(error)):
        await call(FunctionTool(fails), "fails", None, None, None, None)
    with pytest.raises(type(error)):
        await collect(Stream("a", error))


async def collect(tool: Any, **changes: Any) -> list[Any]:
    options = {"arguments": None, "token": None, "call_id": None, "timeout": None, **changes}
    return [item async for item in call_stream(tool, "stream", **options)]


async def test_a_stream_ends_with_the_result() -> None:
    *items, result = await collect(Stream("a", "b", {"c": 1}))
    assert items == ["a", "b"]
    assert result.to_text() == '{"c":1}'


async def test_a_tool_that_does_not_stream_gives_only_the_result() -> None:
    (result,) = await collect(FunctionTool(lambda: 5, "five", name="five"))
    assert (result.name, result.to_text()) == ("stream", "5")


async def test_a_stream_of_nothing_returns_nothing() -> None:
    (result,) = await collect(Stream())
    assert result.to_text() == "None"


async def test_nothing_that_a_stream_yielded_before_an_error_is_lost() -> None:
    *items, result = await collect(Stream("a", "b", ValueError("odd")))
    assert items == ["a", "b"]
    assert isinstance(result, ToolResult)
    assert (result.is_error, result.to_text()) == (True, "ValueError: odd")


async def test_a_stream_that_ends_in_something_without_text() -> None:
    *items, result = await collect(Stream("a", object()))
    assert items == ["a"]
    assert result.is_error


async def test_cancelling_a_stream_raises() -> None:
    token = CancellationToken()
    stream = call_stream(Stream(*range(1000)), "stream", None, token, None, None)
    await anext(stream)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        async for _ in stream:
            pass
