"""The way back to work after a failed turn: the worker finds out how much of it was carried out, or begins anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from callboard.broker.delivery import Delivery
from callboard.broker.errors import (
    CommandError,
    ConnectionLostError,
    EncodeError,
    FencedError,
    OverloadedError,
    ServerUnavailableError,
)
from callboard.broker.outcome import DeadLetter, ErrorInfo
from callboard.broker.telemetry import Fenced, emit

from .intake import Intake
from .interfaces import Handler, Lane
from .mailbox import Finished, Mailbox, Mailboxes
from .runners import Runners

logger = logging.getLogger("callboard.broker")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds before the server is asked again what it refused: no handler notices the first, and a server that loads its
data or fails over is not kept from it by its workers' questions."""

REFUSED = (ServerUnavailableError, CommandError, OverloadedError)
"""The errors after which a call is repeated. The first of them includes a broken connection."""


class Recovery:
    """The way back to work after a turn that failed.

    Args:
        lane: the lane on which the turn failed.
        boxes: what the worker holds.
        intake: is to ask again.
        runners: woken for what comes back, cancelled when the lease is lost.
        handler: told when the lease was lost.
        timeout: seconds to connect within; a draining worker gives up after about as many.
        join: begins a new incarnation.
    """

    def __init__(
        self,
        lane: Lane,
        boxes: Mailboxes,
        intake: Intake,
        runners: Runners,
        handler: Handler,
        timeout: float,
        join: Callable[[], Awaitable[None]],
    ) -> None:
        self._lane = lane
        self._boxes = boxes
        self._intake = intake
        self._runners = runners
        self._handler = handler
        self._timeout = timeout
        self._join = join

    # The answer was lost

    async def find_out(self, sent: Sequence[Finished], error: Exception) -> None:
        """Asks the server what of a turn was carried out, until it answers.

        Args:
            sent: what the turn was to commit.
            error: why it failed.
        """
        logger.warning("a turn failed, asking the server where we are: %s", error)
        try:
            held = await self._resync()
        except FencedError:
            await self.start_again(sent)
            return
        by_reference = {delivery.reference: delivery for delivery in held}
        # guard: what the server does not hold is not run
        if not self._boxes.references() <= by_reference.keys():
            await self._part()
            await self.start_again(sent)
            return
        self._take_stock(sent, by_reference)
        if not isinstance(error, ConnectionLostError):
            await asyncio.sleep(FIRST_PAUSE)  # the server refuses for now; do not ask in a loop

    async def _part(self) -> None:
        """Gives everything back: this worker holds what is not its own, and what it did with it can't be told apart.

        The agent of such an entry may have finished others before it, or be going on behind it, with what its handler
        has changed in memory.
        """
        logger.warning(
            "the server does not know all that %s holds; it gives everything back", self._lane.worker
        )
        try:
            await self._lane.leave()
        except REFUSED as error:
            logger.warning(
                "the lease of %s ends by itself, it can't be given back: %s", self._lane.worker, error
            )

    async def _resync(self) -> list[Delivery]:
        patience_ends = asyncio.get_running_loop().time() + self._timeout
        pause, said = FIRST_PAUSE, ""
        while True:
            await self._reconnect()
            try:
                return await self._lane.resync()
            except REFUSED as error:
                if self._boxes.is_draining and asyncio.get_running_loop().time() > patience_ends:
                    raise
                if str(error) != said:
                    said = str(error)
                    logger.warning("asking again: %s", said)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _reconnect(self) -> None:
        while True:
            try:
                await self._lane.reconnect(self._timeout)
                return
            except ServerUnavailableError as error:
                logger.warning("no connection to the server, trying again: %s", error)
                if self._boxes.is_draining:
                    raise

    def _take_stock(self, sent: Sequence[Finished], held: dict[tuple[bytes, bytes, bytes], Delivery]) -> None:
        """Makes what this worker believes to hold what the server says that it holds.

        The call may have been lost before the server or its answer after it. Of what was sent, the server still
        holds only what it has not committed: that is sent again, in front of what ended meanwhile, so that the
        commits of an agent keep their order. What it holds and this worker never saw came with the lost answer.
        """
        # guard: what was committed is not sent again
        again = [item for item in sent if item[1].reference in held]
        for mailbox, _, _ in again:
            self._boxes.restore(mailbox)
        # guard: what was not committed is sent again
        self._boxes.finished = again + self._boxes.finished
        known = self._boxes.references()
        for reference, delivery in held.items():
            # guard: entries of a lost answer are adopted
            if reference not in known:
                self._boxes.add(delivery)
        self._intake.nudge()
        self._runners.wake()

    # The lease was lost

    async def start_again(self, refused: Sequence[Finished]) -> None:
        """Forgets everything and becomes a new incarnation: other workers have what this one held."""
        emit(Fenced, self._lane.worker, self._boxes.held)
        finished = [mailbox for mailbox, _, _ in (*refused, *self._boxes.finished)]
        running = self._boxes.fence()
        self._complain([*finished, *running])
        # A handler may end before it feels this, or ignore it: `Mailbox.fenced` keeps it from being committed.
        self._runners.cancel(running, "fenced")
        self._intake.start_again()
        self._handler.fenced([mailbox.queue[0] for mailbox in running if mailbox.queue])
        if not self._boxes.is_draining:
            await self._join_again()

    def _complain(self, dropped: Sequence[Mailbox]) -> None:
        for agent_type, key in dict.fromkeys(mailbox.key for mailbox in dropped):
            logger.warning(
                "fenced: the worker %s lost its lease; what it did for %s/%s is dropped, another worker does it",
                self._lane.worker,
                agent_type.decode(errors="replace"),
                key.decode(errors="replace"),
            )

    async def _join_again(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._join()
                return
            except REFUSED as error:
                if self._boxes.is_draining:
                    raise
                logger.warning("cannot join again: %s", error)
                await self._reconnect()
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    # Something can't be written

    def without_unsendable(self, sent: Sequence[Finished], error: EncodeError) -> list[Finished]:
        """The same with a dead letter for each that can't be written, so that the others can leave.

        Nothing of the turn has left. What goes back unhandled has nothing in it that could not be written.
        """
        letter = DeadLetter("unsendable", ErrorInfo(type(error).__name__, str(error)))
        return [
            (mailbox, delivery, outcome if self._lane.can_send(delivery, outcome) else letter)
            for mailbox, delivery, outcome in sent
        ]
