"""Where messages wait for room in a topic that is full; what comes later for the same agent key waits behind them."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from callboard.broker.envelope import Posting
from callboard.broker.errors import BacklogError

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.25  # seconds until the server is asked again whether there is room
Place: TypeAlias = tuple[str, str]  # stream and agent key
Item: TypeAlias = tuple[Posting, asyncio.Future[bool]]


class Guest(NamedTuple):
    """One message that waits. `until`: loop time, seconds."""

    posting: Posting
    future: asyncio.Future[bool]
    until: float


class Queue:
    """The messages that wait for one place: the first is tried again and again, the others follow once it is let in.

    Were the others tried at the same time, one of them might find room that the first had not found a moment before,
    and overtake it.
    """

    def __init__(self) -> None:
        self.guests: deque[Guest] = deque()
        self.tried: Guest | None = None
        self.pause = FIRST_PAUSE
        self.timer: asyncio.TimerHandle | None = None


def place_of(posting: Posting) -> Place:
    """Messages of one place keep their order."""
    return posting.stream, posting.envelope.key


class WaitingRoom:
    """The messages of one process that wait for room.

    Args:
        send: hands messages in once more, before everything that was handed in later.
        patience: seconds that a message waits.
    """

    def __init__(self, send: Callable[[list[Item]], None], patience: float) -> None:
        self._send = send
        self._patience = patience
        self._queues: dict[Place, Queue] = {}

    def __len__(self) -> int:
        return sum(len(queue.guests) for queue in self._queues.values())

    @property
    def is_used(self) -> bool:
        """Whether anything waits, or is tried again."""
        return bool(self._queues)

    @property
    def futures(self) -> list[asyncio.Future[bool]]:
        """The futures of all messages that wait or are tried again."""
        guests = [guest for queue in self._queues.values() for guest in queue.guests]
        guests += [queue.tried for queue in self._queues.values() if queue.tried is not None]
        return [guest.future for guest in guests]

    def takes(self, posting: Posting, future: asyncio.Future[bool]) -> bool:
        """Whether the message has to wait behind others; then it does."""
        queue = self._queues.get(place_of(posting))
        if queue is None or (queue.tried is not None and queue.tried.future is future):
            return False
        queue.guests.append(self._guest(posting, future))
        return True

    def _guest(self, posting: Posting, future: asyncio.Future[bool]) -> Guest:
        return Guest(posting, future, asyncio.get_running_loop().time() + self._patience)

    def refused(self, items: Iterable[Item]) -> None:
        """The server has no room for these, given in the order in which they were sent."""
        by_place: dict[Place, list[Item]] = {}
        for item in items:
            by_place.setdefault(place_of(item[0]), []).append(item)
        for place, group in by_place.items():
            queue = self._queues.setdefault(place, Queue())
            tried, queue.tried = queue.tried, None
            back = [tried] if tried is not None else [self._guest(*item) for item in group]
            queue.guests.extendleft(reversed(back))
            self._look_again(place, queue)

    def ended(self, posting: Posting) -> None:
        """A message was let in, or failed for another reason: what waits behind it may follow."""
        place = place_of(posting)
        queue = self._queues.get(place)
        if queue is not None and queue.tried is not None and queue.tried.posting is posting:
            # Removed first: the messages sent below must not be taken for new ones and wait behind themselves.
            del self._queues[place]
            self._send([(guest.posting, guest.future) for guest in queue.guests if not guest.future.done()])

    def _look_again(self, place: Place, queue: Queue) -> None:
        if queue.timer is None:
            pause, queue.pause = queue.pause, min(2 * queue.pause, LONGEST_PAUSE)
            loop = asyncio.get_running_loop()
            queue.timer = loop.call_later(pause * (0.5 + random.random()), self._try, place, queue)

    def _try(self, place: Place, queue: Queue) -> None:
        queue.timer = None
        now = asyncio.get_running_loop().time()
        while queue.guests:
            guest = queue.guests.popleft()
            if guest.future.done():
                continue
            if now < guest.until:
                queue.tried = guest
                self._send([(guest.posting, guest.future)])
                return
            guest.future.set_exception(BacklogError(stream=guest.posting.stream, seconds=self._patience))
            guest.future.exception()  # seen: for a message that was sent without waiting, asyncio would complain
        del self._queues[place]

    def close(self, error: Exception) -> None:
        """Fails every message that waits."""
        queues = list(self._queues.values())
        self._queues.clear()
        for queue in queues:
            if queue.timer is not None:
                queue.timer.cancel()
            for guest in queue.guests:
                if not guest.future.done():
                    guest.future.set_exception(error)
                    guest.future.exception()
