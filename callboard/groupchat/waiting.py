"""Async functions for callers who are not async."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine.

    Where an event loop runs in this thread, such as in a function that a running chat calls, the coroutine gets a
    thread of its own, and the caller's loop waits.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(context.run, asyncio.run, work).result()


async def value_of(answer: Any) -> Any:
    """What a function returned that may be async."""
    return await answer if inspect.isawaitable(answer) else answer
