"""How much a worker may hold: as much as its handlers begin with soon.

A handler that blocks the event loop (`time.sleep`, a long computation) keeps everything that the worker holds besides from
beginning, and other workers may idle meanwhile. So a worker starts with one delivery, holds twice as many each time the
loop came back promptly from beginning with them, and fewer when it did not.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from time import monotonic  # not loop.time(): uvloop's stands still while a handler blocks it

LATE = 0.1
"""Seconds: so late may the loop be before its handlers count as slow; about so much work is held then."""

LOOK_EVERY = 0.05
"""Seconds between two looks while something is held."""

MOST_UNBEGUN = 0.5
"""Seconds of work that may wait behind a handler that blocked; more than that goes back, for others to take."""


class Pace:
    """Measures how promptly the event loop comes back.

    Args:
        most: the largest width.
        is_busy: whether anything is held.
        on_wider: called when the width has grown.

    Attributes:
        width: how many deliveries the worker may hold now, without those whose handlers wait for a reply.
        ended: handlers that ended since the last look.
        late_at: from when on (`time.monotonic()`) the loop is late.
    """

    def __init__(self, most: int, is_busy: Callable[[], bool], on_wider: Callable[[], None]) -> None:
        self.width = 1
        self.ended = 0
        self._most = most
        self._is_busy = is_busy
        self._on_wider = on_wider
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle | None = None
        self._due = self.late_at = math.inf

    def begin(self) -> None:
        """A runner is about to begin with deliveries that have come; looked at is when the loop is back from there."""
        if self._next is not None and self.width == self._most:
            return
        self.end()
        self.ended = 0
        self._expect(monotonic())
        self._next = self._loop.call_soon(self._look)

    def end(self) -> None:
        """Looks no more, until deliveries come."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._expect(math.inf)

    def _expect(self, due: float) -> None:
        self._due, self.late_at = due, due + LATE

    def _look(self) -> None:
        now = monotonic()
        late = now - self._due
        if late > LATE:
            self.width = max(1, min(self.width, int(self.ended * LATE / late)))
        elif self.width < self._most:
            self.width = min(2 * self.width, self._most)
            self._on_wider()
        self.ended = 0
        self._next = None
        self._expect(math.inf)
        if self._is_busy():
            self._expect(now + LOOK_EVERY)
            self._next = self._loop.call_later(LOOK_EVERY, self._look)

    def blocks_others(self, unbegun: int) -> bool:
        """A handler has ended: whether it blocked the loop, and so many would wait too long behind others like it."""
        late = monotonic() - self._due
        return late > LATE and unbegun * late > MOST_UNBEGUN * self.ended
