"""What a publisher tells of a request."""

from __future__ import annotations

import asyncio

from callboard.broker.envelope import Envelope


class RequestArrival(asyncio.Future[bool]):
    """Done when a request is in its stream; when it can't get there, whoever waits for the reply gets the error.

    Not a callback, which would be called for every request that arrives as well.
    """

    __slots__ = ("_waiting",)

    _waiting: asyncio.Future[Envelope]

    @classmethod
    def of(cls, waiting: asyncio.Future[Envelope], loop: asyncio.AbstractEventLoop) -> RequestArrival:
        """The arrival of a request for whose reply somebody waits. An `__init__` in Python takes as long as all the rest."""
        made = cls(loop=loop)
        made._waiting = waiting
        return made

    def set_exception(self, exception: type | BaseException, /) -> None:
        """Tells whoever waits for the reply, too."""
        super().set_exception(exception)
        if not self._waiting.done():
            self._waiting.set_exception(exception)
