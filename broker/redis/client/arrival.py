"""What a publisher tells of a request."""

from __future__ import annotations

import asyncio

from callboard.broker.envelope import Envelope


class RequestArrival(asyncio.Future[bool]):
    """Done when a request is in its stream; when it can't get there, whoever waits for the reply gets the error.

    Not a callback, which would be called for every request that arrives as well.
    """

    def __init__(self, waiting: asyncio.Future[Envelope]) -> None:
        super().__init__()
        self._waiting = waiting

    def set_exception(self, exception: type | BaseException, /) -> None:
        """Tells whoever waits for the reply, too."""
        super().set_exception(exception)
        if not self._waiting.done():
            self._waiting.set_exception(exception)
