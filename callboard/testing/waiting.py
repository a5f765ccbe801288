"""Waiting for a condition instead of for a time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.1  # seconds between two looks


@overload
async def eventually(
    condition: Callable[[], Awaitable[T]], within: float = 10.0, what: str | Callable[[], object] = ""
) -> T: ...


@overload
async def eventually(
    condition: Callable[[], T], within: float = 10.0, what: str | Callable[[], object] = ""
) -> T: ...


async def eventually(
    condition: Callable[[], Any], within: float = 10.0, what: str | Callable[[], object] = ""
) -> Any:
    """Calls a function again and again until what it returns is true, and returns that.

    Args:
        condition: an ordinary or an async function without arguments.
        within: seconds after which the test fails.
        what: what is waited for, to be shown when it fails, or a function that is called then; "": the function's name.

    Raises:
        AssertionError: it was not true in time; says what was returned last.
    """
    deadline = time.monotonic() + within
    pause = FIRST_PAUSE
    while True:
        found = condition()
        value = await found if inspect.isawaitable(found) else found
        if value:
            return value
        if time.monotonic() > deadline:
            shown = what() if callable(what) else what or getattr(condition, "__name__", "")
            raise AssertionError(f"not within {within:g} s: {shown}; last seen: {value!r}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)
