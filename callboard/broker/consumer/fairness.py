"""One agent with a long queue does not keep a worker from the others.

The messages of an agent are handled one after the other. Of an agent that takes seconds for each, a worker could hold so
many that it has room for nobody else, while its places are idle. So what waits long behind an agent goes back to the server,
is parked there behind the agent, which stays with the worker, and comes back in portions as the agent gets on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

from callboard.broker.delivery import Delivery

from .mailbox import Mailbox, Mailboxes

PORTION = 16
"""Deliveries of one agent that a worker is given at once of what is parked. `take.lua` says the same (HANDED_OVER)."""

LOOK_EVERY = 0.4
"""Seconds between two looks while something is held.

What waited from one look to the next waits long. Much longer than a turn takes, so that of fast handlers nothing goes back,
and short for those who wait for room.
"""

LOOK_AGAIN = 0.05
"""Seconds until the look after one that has parked something: the next agent with a long queue may have come instead."""


class Fairness:
    """Looks for agents whose queue keeps the worker from others, and has what waits behind them parked.

    Args:
        boxes: what the worker holds.
        is_short: the worker would take more than it has room for, and has idle places.
        share: deliveries that it keeps of each agent. No more than a portion, or what was parked would hardly come back.
        wake: makes the consumer take a turn.
    """

    def __init__(
        self,
        boxes: Mailboxes,
        is_short: Callable[[], bool],
        share: Callable[[], int],
        wake: Callable[[], None],
    ) -> None:
        self._boxes = boxes
        self._is_short = is_short
        self._share = share
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.TimerHandle | None = None
        self._pause = LOOK_EVERY
        self._last: dict[Mailbox, Delivery] = {}

    def begin(self) -> None:
        """Deliveries have come; looks until nothing is held any more."""
        if self._next is None:
            self._next = self._loop.call_later(self._pause, self._look)

    def end(self) -> None:
        """Looks no more, until deliveries come."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._last.clear()

    def _look(self) -> None:
        self._next = None
        share = self._share()
        long = {box: box.queue[-1] for box in self._boxes if box.task is not None and len(box.queue) > share}
        if not self._is_short():
            self._pause = LOOK_EVERY
        elif waited := [box for box in long if self._has_waited(box)]:
            self._pause = LOOK_AGAIN
            for box in waited:
                self._boxes.park(box, share)
            self._wake()
        self._last = long
        if self._boxes.held:
            self.begin()

    def _has_waited(self, box: Mailbox) -> bool:
        """Whether what was its last delivery at the look before has not begun yet.

        Looked at are handlers that wait for something. One that only computes is not seen at work here: it keeps the whole
        worker busy, whose places are idle only as it seems.
        """
        last = self._last.get(box)
        return last is not None and last in islice(box.queue, 1, None)
