"""A session with a server: opened when it is first needed, and again in another event loop once its own is closed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from callboard.foundation.tasks import of_this_loop

from .errors import BadRequestError


class Closable(Protocol):
    """What a session has open."""

    async def close(self) -> None:
        """End its connections."""
        ...


OpenT = TypeVar("OpenT", bound=Closable)
OpenT_co = TypeVar("OpenT_co", bound=Closable, covariant=True)


class Opener(Protocol[OpenT_co]):
    """A server, and how to open a session with it."""

    @property
    def http_client(self) -> Any:
        """A client of the user's, whose connections are not ours to end; None: there is none."""
        ...

    async def load(self) -> None:
        """Import the package that it needs, in which time the other agents of this process go on."""
        ...

    def make(self) -> OpenT_co:
        """Make the package's client."""
        ...


class LoopSession(Generic[OpenT]):
    """A session that a program may use in one `asyncio.run` after the other. `close` is for good.

    Args:
        model: its name, for errors.
        opener: opens it.
    """

    def __init__(self, model: str, opener: Opener[OpenT]) -> None:
        self._model = model
        self._opener = opener
        self._open: OpenT | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def opened(self) -> OpenT:
        """The package's client.

        Raises:
            BadRequestError: it was closed; or it was used in another event loop, which lives, or with an `http_client` whose
                connections are that loop's.
        """
        await self._opener.load()
        if self._closed:
            raise BadRequestError(self._model, "the client is closed: make another one")
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop.is_closed() and self._opener.http_client is None:
            await self._forget()
        if self._open is None:
            self._open, self._loop = self._opener.make(), loop
            of_this_loop(self)
        if self._loop is not loop:
            # Its connections would fail now and then, with "Event loop is closed".
            raise BadRequestError(self._model, "the client was used in another event loop: make one for each")
        return self._open

    async def leave_loop(self) -> None:
        """End the connections, whose loop ends; in another one it opens again. A client of the user's stays as it is."""
        if self._opener.http_client is None and self._open is not None:
            left, self._open, self._loop = self._open, None, None
            await left.close()

    async def _forget(self) -> None:
        """The connections went with their loop. A client that is given up unclosed would try to end them later, in ours."""
        left, self._open, self._loop = self._open, None, None
        if left is not None:
            with suppress(RuntimeError):  # "Event loop is closed"
                await left.close()

    async def close(self) -> None:
        """End the connections. Safe to repeat."""
        self._closed = True
        if self._loop is not None and self._loop.is_closed():
            await self._forget()
        opened, self._open = self._open, None
        if opened is not None:
            await opened.close()
