"""Awaiting what a CancellationToken may end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from ..cancellation import CancellationToken

T = TypeVar("T")


async def cancellable(coroutine: Coroutine[Any, Any, T], token: CancellationToken | None) -> T:
    """Await a coroutine, which ends with CancelledError when the token is cancelled."""
    if token is None:
        return await coroutine
    return await token.link_future(asyncio.ensure_future(coroutine))


async def cancellable_items(items: AsyncIterator[T], token: CancellationToken | None) -> AsyncIterator[T]:
    """The items of a stream; waiting for the next one ends with CancelledError when the token is cancelled."""
    while True:
        try:
            item = await cancellable(_next(items), token)
        except StopAsyncIteration:
            return
        yield item


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)
