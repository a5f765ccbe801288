"""A run that a token cancels, wherever its members are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from callboard.cancellation import CancellationToken

from .errors import TeamNotRunError


class Cancelling:
    """Cancels a run when a token is cancelled. Who reads the run sees its end; or why it could not be cancelled.

    Args:
        token: The token.
        abort: Cancels the run.
    """

    def __init__(self, token: CancellationToken, abort: Callable[[], Awaitable[bool]]) -> None:
        self._abort = abort
        self._loop = asyncio.get_running_loop()
        self._order: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[Any] = self._loop.create_future()
        self._is_open = True
        token.add_callback(self._wake)

    def _wake(self) -> None:
        # A token may outlive the reader and its loop.
        if self._is_open:
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._is_open:
            self._order = asyncio.ensure_future(self._give_order())

    async def _give_order(self) -> None:
        try:
            await self._abort()
        except TeamNotRunError:
            return  # it has ended, and the reader sees how
        except Exception as error:  # noqa: BLE001 - the reader gets it
            if not self._failed.done():
                self._failed.set_exception(error)

    async def watched(self, entries: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """The entries of the run; when it can't be cancelled, nobody waits for its end, which may never come."""
        async with aclosing(entries):
            while (entry := await self._next(entries)) is not None:
                yield entry

    async def _next(self, entries: AsyncGenerator[Any, None]) -> Any:
        following = asyncio.ensure_future(anext(entries, None))
        try:
            await asyncio.wait({following, self._failed}, return_when=asyncio.FIRST_COMPLETED)
            return following.result() if following.done() else self._failed.result()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def close(self) -> None:
        """No order is given any more."""
        self._is_open = False
        self._failed.cancel()
        if self._order is not None:
            await asyncio.gather(self._order, return_exceptions=True)
