"""Ends the HTTP responses of a stream that is left: some of the packages leave that to the garbage collector."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import httpx2

StreamT = TypeVar("StreamT")

_begun: ContextVar[list[httpx2.Response] | None] = ContextVar("callboard_begun_responses", default=None)


async def note_response(response: httpx2.Response) -> None:
    """A hook of the client for HTTP: the stream that is being opened has this response."""
    responses = _begun.get()
    if responses is not None:
        responses.append(response)


class OpenStream(Generic[StreamT]):
    """A stream of a package's, whose request ends with it.

    Args:
        stream: opens it.
    """

    def __init__(self, stream: AbstractAsyncContextManager[StreamT]) -> None:
        self._stream = stream
        self._responses: list[httpx2.Response] = []

    async def open(self) -> StreamT:
        """Send the request."""
        before = _begun.set(self._responses)
        try:
            return await self._stream.__aenter__()
        except BaseException:
            await self._end()
            raise
        finally:
            _begun.reset(before)

    async def close(self) -> None:
        """End the request, whether all of its answer has come or not."""
        try:
            await self._stream.__aexit__(None, None, None)
        finally:
            await self._end()

    async def _end(self) -> None:
        for response in self._responses:
            await response.aclose()
