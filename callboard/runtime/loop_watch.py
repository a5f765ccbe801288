"""Sees, from another thread, that a handler keeps the event loop from running, and which one it is."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from types import FrameType

from callboard.foundation.printable import one_line

from .users_code import is_ours, is_users

logger = logging.getLogger("callboard.actors")

BLOCKED_AFTER = 0.5  # seconds that the loop may need to answer
TELL_AGAIN = 60.0  # seconds after which the same line of code is complained about again
MOST_TOLD = 100  # lines of code that are remembered for that


class LoopWatch:
    """Asks the loop for a sign of life with each look, and says what it does when it gives none.

    Args:
        loop: The loop, in whose thread this is made.
        who: The message that a task handles, as `counter/ada handles Visit`; "" for none.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, who: Callable[[asyncio.Task[object]], str]) -> None:
        self._loop = loop
        self._who = who
        self._thread = threading.get_ident()
        self._asked_at = 0.0
        self._is_asked = False
        self._told: dict[str, float] = {}

    def look(self) -> str:
        """One look, in another thread than the loop's.

        Returns:
            "", or while the loop is blocked for how many seconds, a space, and by what.
        """
        now = monotonic()
        if not self._is_asked:
            self._is_asked, self._asked_at = True, now
            self._loop.call_soon_threadsafe(self._answer)
            return ""
        seconds = now - self._asked_at
        if seconds < BLOCKED_AFTER:
            return ""
        what = self._describe()
        self._tell(what, seconds, now)
        return f"{seconds:.1f} {what}"

    def _answer(self) -> None:
        self._is_asked = False

    def _describe(self) -> str:
        task = asyncio.current_task(self._loop)
        who = self._who(task) if task is not None else ""
        where = handler_line(sys._current_frames().get(self._thread))
        return ", ".join(filter(None, (who, where))) or "something that is no handler"

    def _tell(self, what: str, seconds: float, now: float) -> None:
        if now < self._told.get(what, 0.0) or len(self._told) > MOST_TOLD:
            return
        self._told[what] = now + TELL_AGAIN
        logger.warning(
            "the event loop has stood still for %.1f s: %s. Nothing else runs in this process meanwhile: "
            "have what blocks run in a thread, with `await asyncio.to_thread(...)`",
            seconds,
            one_line(what),
        )


def handler_line(frame: FrameType | None) -> str:
    """Where a thread is, as `line 12 of app.py`: the outermost line of the user's code that our own code has called."""
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    is_inside = False
    for each in reversed(frames):
        file = each.f_code.co_filename
        if is_ours(file):
            is_inside = True
        # What is installed is no handler: the command line calls all of this through a package of others.
        elif is_inside and is_users(file):
            return f"line {each.f_lineno} of {Path(file).name}"
    return ""
