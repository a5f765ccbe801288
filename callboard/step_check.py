"""Refuses what can be no step of `ctx.once`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from .errors import StepError

T = TypeVar("T")


def check_step(name: object, function: object) -> None:
    """Check what was given to `ctx.once`.

    Raises:
        StepError: The name is missing, or the function was called already (a TypeError).
    """
    if not isinstance(name, str):
        raise StepError(repr(name), "its name, a text, comes first: await ctx.once('charge', charge, 250)")
    if isinstance(function, Coroutine):
        given = getattr(function, "__name__", "the function")
        function.close()  # nobody awaits it any more, and Python would warn of that
        advice = f"await ctx.once({name!r}, {given}, ...)"
        raise StepError(
            repr(name), f"give the function and its arguments apart, for it is not always called: {advice}"
        )
    if not callable(function):
        raise StepError(repr(name), f"a {type(function).__name__} is no function")


def called(name: str, call: Callable[[], Awaitable[T]]) -> Awaitable[T]:
    """What a step's function returned, to be awaited.

    Raises:
        StepError: It is not async (a TypeError).
    """
    found = call()
    if not inspect.isawaitable(found):
        raise StepError(
            repr(name),
            f"its function has to be async; one that is not may run in a thread: await ctx.once({name!r}, "
            "asyncio.to_thread, function, ...)",
        )
    return found
