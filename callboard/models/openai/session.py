"""The session with a server: a client of the openai package, made with the first request in an event loop."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from callboard.models.errors import BadRequestError

from .connection import Connection
from .failures import typed_errors

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class Session:
    """A session that opens when it is first needed, and again in another event loop once its own is closed.

    So a program may ask in one `asyncio.run` after the other, as it does with all that waits for what is async. `close` is
    for good.

    Args:
        model: its name, for errors.
        connection: to the server.
    """

    def __init__(self, model: str, connection: Connection) -> None:
        self._model = model
        self._connection = connection
        self._openai: AsyncOpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def opened(self) -> AsyncOpenAI:
        """The package's client.

        Raises:
            BadRequestError: it was closed; or it was used in another event loop, which lives, or with an `http_client` whose
                connections are that loop's.
        """
        await self._connection.load()
        if self._closed:
            raise BadRequestError(self._model, "the client is closed: make another one")
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop.is_closed() and self._connection.http_client is None:
            await self._forget()
        if self._openai is None:
            self._openai, self._loop = self._connection.make(), loop
        if self._loop is not loop:
            # Its connections would fail now and then, with "Event loop is closed".
            raise BadRequestError(self._model, "the client was used in another event loop: make one for each")
        return self._openai

    async def _forget(self) -> None:
        """The connections went with their loop. A client that is given up unclosed would try to end them later, in ours."""
        left, self._openai, self._loop = self._openai, None, None
        if left is not None:
            with suppress(RuntimeError):  # "Event loop is closed"
                await left.close()

    def typed_errors(self) -> AbstractContextManager[None]:
        """Raise the errors of the package as ours."""
        return typed_errors(self._model, self._connection.base_url, self._connection.secret)

    async def close(self) -> None:
        """End the connections. Safe to repeat."""
        self._closed = True
        if self._loop is not None and self._loop.is_closed():
            await self._forget()
        opened, self._openai = self._openai, None
        if opened is not None:
            await opened.close()
