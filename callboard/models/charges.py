"""Tokens that are paid for although there is no answer: what errors, and requests that were cancelled, say of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing

from .errors import ModelError
from .types import CreateResult, RequestUsage


def charged(error: BaseException) -> RequestUsage:
    """The tokens that a request used which ended with an error or was cancelled, as far as is known."""
    usage = getattr(error, "usage", None)
    return usage if isinstance(usage, RequestUsage) else RequestUsage(0, 0)


def charge(error: BaseException, usage: RequestUsage) -> None:
    """Say in an error that the request used these tokens, too."""
    if isinstance(error, ModelError):
        error.charge(usage)
    elif usage.total_tokens:
        setattr(error, "usage", charged(error) + usage)  # noqa: B010 - of asyncio.CancelledError, which has no such field


class Charges:
    """Adds up what the tries of one request used before the one that counts."""

    def __init__(self) -> None:
        self._tried = RequestUsage(0, 0)

    async def of(self, work: Awaitable[CreateResult]) -> CreateResult:
        """The result of one try, with the usage of those before it; an error says the usage of all of them."""
        try:
            result = await work
        except (ModelError, asyncio.CancelledError) as error:
            self._add_to(error)
            raise
        return self._added_to(result)

    async def of_stream(
        self, items: AsyncGenerator[str | CreateResult, None]
    ) -> AsyncGenerator[str | CreateResult, None]:
        """The items of one try, as `of` has it."""
        try:
            async with aclosing(items):
                async for item in items:
                    yield self._added_to(item) if isinstance(item, CreateResult) else item
        except (ModelError, asyncio.CancelledError) as error:
            self._add_to(error)
            raise

    def _add_to(self, error: BaseException) -> None:
        charge(error, self._tried)
        self._tried = charged(error)

    def _added_to(self, result: CreateResult) -> CreateResult:
        if not self._tried.total_tokens:
            return result
        return result.model_copy(update={"usage": result.usage + self._tried})
