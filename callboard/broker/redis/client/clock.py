"""The server's time, as one process knows it.

It goes by a clock of this machine that nobody sets, and learns from every answer how far the server's is from it. So it
does not matter what time this machine believes it is, nor that it changes its mind.
"""

from __future__ import annotations

import time
from typing import Final

# Counts while the machine sleeps, too, where there is such a clock.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def steady_ms() -> float:
    """Milliseconds of a clock that only goes on; its zero means nothing."""
    return (time.monotonic() if _STEADY is None else time.clock_gettime(_STEADY)) * 1000


class ServerClock:
    """What every answer of the server adds to: its time lay between the question and the answer."""

    def __init__(self) -> None:
        # What is ahead of the steady clock by so much, at least and at most. Until the first answer this machine's word.
        self._least = self._most = time.time() * 1000 - steady_ms()
        self._offset = self._least
        self._is_known = False

    def observe(self, server_ms: int, asked_ms: float) -> None:
        """Learns from an answer.

        Args:
            server_ms: the server's time in it.
            asked_ms: steady time when the question left.
        """
        least, most = server_ms - steady_ms(), server_ms + 1 - asked_ms
        if self._is_known and least <= self._most and most >= self._least:
            # An answer that lay unread while a handler blocked the event loop says little, and takes nothing away.
            least, most = max(least, self._least), min(most, self._most)
        self._least, self._most, self._is_known = least, most, True
        self._offset = (least + most) / 2

    def now_ms(self) -> int:
        """The server's time now."""
        return int(steady_ms() + self._offset)
