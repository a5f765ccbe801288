"""Until when callers wait for replies."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from callboard.broker import AgentId
from callboard.broker.errors import RequestTimeoutError


class Deadlines:
    """Fails what is waited for too long.

    There is one timer for all of it: nearly every reply comes in time, and a timer of its own costs a request as much as its
    envelope does.
    """

    def __init__(self) -> None:
        self._waits: dict[asyncio.Future[Any], tuple[float, AgentId, float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def add(self, waiting: asyncio.Future[Any], recipient: AgentId, seconds: float) -> None:
        """Fails this future with RequestTimeoutError when it is not done in so many seconds; `remove` it in the end."""
        loop = waiting.get_loop()
        until = loop.time() + seconds
        self._waits[waiting] = (until, recipient, seconds)
        if until < self._at:
            self._wake_at(until, loop)

    def remove(self, waiting: asyncio.Future[Any]) -> None:
        """Nobody waits for it any more."""
        self._waits.pop(waiting, None)

    def _wake_at(self, until: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = until
        self._timer = loop.call_at(until, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fails what is late, and looks again when the next one is."""
        self._timer, self._at = None, math.inf
        now = loop.time()
        for waiting, (until, recipient, seconds) in list(self._waits.items()):
            if waiting.done():
                continue
            if until <= now:
                waiting.set_exception(RequestTimeoutError(str(recipient), seconds))
            elif until < self._at:
                self._at = until
        if self._at < math.inf:
            self._wake_at(self._at, loop)

    def close(self) -> None:
        """Fails nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
