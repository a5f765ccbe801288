"""Work that a token may end. Without imports from the other packages, so that all of them can use it."""

from __future__ import annotations

from asyncio import Future, ensure_future
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
FutureT = TypeVar("FutureT", bound="Future[Any]")


class Cancellation(Protocol):
    """A token that ends a wait; `callboard.CancellationToken` is one."""

    def is_cancelled(self) -> bool:
        """Whether it was cancelled."""
        ...

    def link_future(self, future: FutureT) -> FutureT:
        """Cancel the future when the token is cancelled."""
        ...


async def cancellable(work: Coroutine[Any, Any, T], token: Cancellation | None) -> T:
    """The result of `work`, which ends with CancelledError when the token is cancelled."""
    if token is None:
        return await work
    return await token.link_future(ensure_future(work))


async def cancellable_items(items: AsyncIterator[T], token: Cancellation | None) -> AsyncIterator[T]:
    """The items of a stream; waiting for the next one ends with CancelledError when the token is cancelled."""
    while True:
        try:
            item = await cancellable(_next(items), token)
        except StopAsyncIteration:
            return
        yield item


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)
