"""By when running handlers have to have ended: those of agent types with a `max_runtime`."""

from __future__ import annotations

import time
from array import array
from itertools import count


class RunningLimits:
    """The limits of the handlers under way.

    Attributes:
        board: its one number is the time (`time.monotonic()`) at which the first of them ends, 0.0 when there is none. It
            may be memory that another process sees too, see `Keeper`; to be replaced only while nothing runs.
    """

    def __init__(self) -> None:
        self.board: memoryview[float] = memoryview(array("d", [0.0])).cast("B").cast("d")
        self._ends: dict[int, float] = {}
        self._numbers = count()

    def begin(self, seconds: float) -> int:
        """A handler begins that may run so long; returns what `end` needs."""
        number, ends = next(self._numbers), time.monotonic() + seconds
        self._ends[number] = ends
        if not self.board[0] or ends < self.board[0]:
            self.board[0] = ends
        return number

    def end(self, number: int) -> None:
        """The handler has ended."""
        # guard: a handler that ended has no limit any more
        if self._ends.pop(number) <= self.board[0]:
            self.board[0] = min(self._ends.values(), default=0.0)

    def overdue(self) -> float:
        """Seconds since the first of them should have ended; 0 when none is late. May be called in any thread."""
        earliest = self.board[0]
        return max(0.0, time.monotonic() - earliest) if earliest else 0.0
