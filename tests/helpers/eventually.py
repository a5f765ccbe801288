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
    """Looks again and again until `condition()` is true; returns what it returned.

    Args:
        condition: an ordinary or an async function.
        within: seconds after which the test fails.
        what: what was waited for, for the failure; a function is called when it has failed.
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


async def never(condition: Callable[[], object], during: float = 0.3) -> None:
    """Looks again and again for `during` seconds; fails when `condition()` is true once.

    It can only miss what comes later: what must not happen at all is also seen in what a test asserts at its end.
    """
    deadline = time.monotonic() + during
    while time.monotonic() < deadline:
        assert not condition()
        await asyncio.sleep(LONGEST_PAUSE / 10)
