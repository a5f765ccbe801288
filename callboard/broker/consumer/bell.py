"""How an idle worker learns that there is work: a token in the bell of an agent type, or the time of the next timer.

A worker that holds nothing leaves its next turn at the server, to be taken with the token: the work comes with the news
of it. (One that holds something may have something to commit by then, and takes a turn of its own when it hears the bell.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from callboard.broker.errors import BrokerError

from .interfaces import ConsumedType, Lane, Pull, Turn

logger = logging.getLogger("callboard.broker")


class Brought(NamedTuple):
    """What came with the bell.

    Attributes:
        turn: the answer to the turn that waited there, or why it is not known.
        room: how many deliveries of each type it asked for.
    """

    turn: Turn | Exception
    room: int


class Bell:
    """The bells of all agent types of a worker.

    Args:
        lane: the lane on which tokens come.
        types: the agent types by name; more may be added to it later.
        has_room: whether the worker would take a delivery of this agent type now.
        nudge: makes the worker take a turn.
        wake: makes it look for what was brought.
        longest_wait: seconds after which an idle worker looks by itself.

    Attributes:
        scan: the next turn is to look at every stream, for no token has told where there is something.
        brought: the turn that came with the bell, until it is taken.
    """

    def __init__(
        self,
        lane: Lane,
        types: Mapping[str, ConsumedType],
        has_room: Callable[[str], bool],
        nudge: Callable[[], None],
        wake: Callable[[], None],
        longest_wait: float,
    ) -> None:
        self._lane = lane
        self._types = types
        self._has_room = has_room
        self._nudge = nudge
        self._wake = wake
        self._longest_wait = longest_wait
        self._wait = longest_wait
        self._listening: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.scan = True
        self.brought: Brought | None = None

    def listen(self, pull: Pull | None = None, types: Iterable[ConsumedType] | None = None) -> None:
        """Waits for one token, unless that is under way. It goes on while turns are taken for other reasons.

        Args:
            pull: what to take with it.
            types: whose bells are heard; None: those of all types.
        """
        if self._listening is None:
            self._listening = self._loop.create_task(self._listen(pull, types), name="callboard-bell")
            # Not a `finally` in the task: one that is cancelled before its first step, because an agent type is added
            # just then, never gets there, and the worker would never listen again.
            self._listening.add_done_callback(self._has_ended)

    async def _listen(self, pull: Pull | None, types: Iterable[ConsumedType] | None) -> None:
        if pull is None:
            heard = list(self._types) if types is None else [each.name for each in types]
            rang = await self._lane.wait_for_bell(heard, self._wait)
        else:
            try:
                rang, turn = await self._lane.turn_at_bell(list(self._types), self._wait, pull)
            except Exception as error:  # whatever it is, the turn may have been carried out
                # guard: a turn at the bell that was not answered is asked after
                self.brought = Brought(error, 0)
                raise
            if turn is not None:
                self.brought = Brought(turn, pull.room)
        # The lost token: this worker listened, a turn that it took for another reason filled it, then the token
        # came, meant for one worker. Kept here it would wake no other one, although others may be idle.
        # guard: a full worker passes the token on
        if rang and self.brought is None and not self._has_room(rang):
            await self._lane.ring(rang)
        self.scan = self.scan or not rang
        # Here, and not when the task is done: that is known one round of the event loop later.
        self._listening = None
        self._tell()

    def _has_ended(self, listening: asyncio.Task[None]) -> None:
        if self._listening is not listening:
            return  # it has told so itself
        self._listening = None
        if not listening.cancelled() and (error := listening.exception()) is not None:
            # One of the server's is told of where the turn is asked after.
            if self.brought is None or not isinstance(error, BrokerError):
                logger.error("waiting for the bell failed, looking at every stream instead", exc_info=error)
            self.scan = True
        self._tell()

    def _tell(self) -> None:
        if self.brought is None:
            self._nudge()
        else:
            self._wake()

    def take(self) -> Brought | None:
        """What came with the bell, once."""
        brought, self.brought = self.brought, None
        return brought

    async def settle(self) -> None:
        """Waits for what is on its way."""
        if self._listening is not None:
            await asyncio.wait({self._listening})

    async def listen_anew(self, known: list[str]) -> None:
        """Ends a wait that began when only these types were known, so that the next one hears all bells.

        A cancelled wait may lose a token: the server has taken it out of its list, and the answer is on its way. So
        the wait is ended by a token of our own. Without a type there was no bell to wait for.
        """
        if self._listening is None:
            return
        if known:
            await self._lane.ring(known[0])
        else:
            self._listening.cancel()

    def due_in(self, seconds: float) -> None:
        """Looks again when the next timer is due.

        The wait for a token ends by then, but that is not enough: it may have begun before this worker knew of the timer,
        and a server that is idle ends it up to 0.1 s late.
        """
        self._wait = seconds
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if seconds < self._longest_wait:
            self._alarm = self._loop.call_later(seconds, self._nudge)

    def end(self) -> set[asyncio.Task[None]]:
        """Stops listening; returns the task whose end is to be waited for, if there is one."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self._listening is None:
            return set()
        self._listening.cancel()
        return {self._listening}
