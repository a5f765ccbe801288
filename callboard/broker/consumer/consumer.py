"""The loop of a worker: take turns at the server, and have the deliveries handled that they bring.

One turn is one call that commits what is finished and pulls new deliveries; while it is under way the handlers run, so
that server and worker work at the same time. Messages of different agents are handled at once, those of one agent one
after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from callboard.broker.delivery import Delivery
from callboard.broker.errors import ConnectionLostError, EncodeError, FencedError
from callboard.broker.retry import RetryPolicy
from callboard.broker.settings import BrokerSettings

from .bell import Brought
from .cut_off import CutOff
from .intake import Intake
from .interfaces import ConsumedType, Handler, Incarnation, Lane, Turn
from .mailbox import Finished, Mailboxes
from .places import Places
from .portion import Portion
from .recovery import REFUSED, Recovery
from .runners import Runners

logger = logging.getLogger("callboard.broker")

FEW = 4
"""Deliveries of a turn that begin before the next turn is sent, which carries the commits of those that end at once.

A turn costs the server as much as several small handlers cost the worker: one that only asks for more is saved. With more
deliveries, the server had better work at the same time.
"""


class Consumer:
    """One worker for some agent types.

    Args:
        lane: its connection to the server.
        types: the agent types to work for.
        handler: handles what comes.
        settings: how much is taken and held, and how long it is patient.

    Attributes:
        joined: set from the first join on.
    """

    def __init__(
        self, lane: Lane, types: Iterable[ConsumedType], handler: Handler, settings: BrokerSettings
    ) -> None:
        types = list(types)
        self._lane = lane
        self._handler = handler
        self._wake = asyncio.Event()
        self._boxes = Mailboxes()
        self._places = Places(settings.concurrency, types)
        self._intake = Intake(lane, types, self._boxes, self._places, settings, self._wake)
        retry = RetryPolicy.of(settings)
        self._runners = Runners(self._boxes, self._places, self._intake, handler, self, retry)
        self._portion = Portion(settings.max_payload)
        self._recovery = Recovery(
            lane, self._boxes, self._intake, self._runners, handler, settings.socket_timeout, self._join
        )
        self._cut_off = CutOff(settings.lease)
        self.joined = asyncio.Event()

    # The loop

    async def run(self) -> None:
        """Works until drained.

        Raises:
            ServerUnavailableError, CommandError, OverloadedError: the first join was refused, or the server did not
                come back while the worker was drained.
        """
        try:
            await self._join()
            while not self._is_drained():
                await self._wait_for_a_reason()
                await self._take_turn()
            await self._leave()
        finally:
            await self._close()

    async def _join(self) -> None:
        await self._handler.declare()
        joined = list(self._intake.types)
        await self._lane.join(joined, self._handler.accepts())
        self.joined.set()
        # guard: a type that came while the worker joined is announced
        if (types := list(self._intake.types)) != joined:
            await self._lane.announce(types)

    def _is_drained(self) -> bool:
        # guard: a drain waits for what runs
        return self._boxes.is_draining and not self._boxes.held

    async def _wait_for_a_reason(self) -> None:
        if self._boxes.finished or self._boxes.has_leftovers or self._intake.wants_turn():
            return
        # With a reason already there, the bell would be listened to beside the turn that follows.
        if not self._wake.is_set():
            self._intake.listen()
            await self._wake.wait()

    async def _take_turn(self) -> None:
        # What ends, or is told, from here on sets the event again and is a reason for the turn after this one.
        self._wake.clear()
        if (brought := self._intake.take_brought()) is not None:
            await self._take_in(brought)
            if not self._boxes.finished:
                return
            self._wake.clear()
        sent = self._boxes.take_finished(self._portion.cut(self._boxes.finished))
        endings = self._boxes.endings(sent)
        pull = self._intake.next_pull()
        try:
            turn = await self._lane.turn(endings, pull)
        except (FencedError, EncodeError, *REFUSED) as error:
            with self._cut_off:
                await self._recover(sent, error)
        else:
            self._portion.went_well(sent)
            # guard: what the bell is about to bring is waited for
            if turn.is_second:
                await self._intake.settle_bell()
            brought = self._intake.take_brought()
            # Where it is not known what the bell brought, all is known anew by now, this answer included.
            # guard: what the bell brought is taken before what came later
            if brought is None or await self._take_in(brought):
                await self._take_up(turn, pull.room)

    async def _take_in(self, brought: Brought) -> bool:
        """Takes what the bell has brought; whether it was an answer."""
        answer = brought.turn
        if isinstance(answer, Turn):
            await self._take_up(answer, brought.room)
            self._intake.look_everywhere()
            return True
        with self._cut_off:
            await self._recover([], answer)
        return False

    async def _take_up(self, turn: Turn, room: int) -> None:
        self._receive(turn, room)
        if 0 < len(turn.deliveries) <= FEW:
            await asyncio.sleep(0)  # the runner that was woken goes first

    async def _recover(self, sent: list[Finished], error: Exception) -> None:
        if isinstance(error, FencedError):
            await self._recovery.start_again(sent)
        elif isinstance(error, EncodeError):
            await self._recovery.find_out(self._recovery.without_unsendable(sent, error), error)
        else:
            if isinstance(error, ConnectionLostError):
                self._portion.was_lost(sent)
            await self._recovery.find_out(sent, error)
        # What the bell has brought before the server was asked, it has told of again; or it is lost with the lease.
        # guard: what the bell brought is not taken twice
        self._intake.take_brought()

    def _receive(self, turn: Turn, room: int) -> None:
        # An agent that finished while this turn was under way, and of which the turn brings more, still has its
        # mailbox, since its commit is unsent: the delivery joins it, and that commit does not free the agent.
        for delivery in turn.deliveries:
            self._boxes.add(delivery)
        self._intake.learn(turn, room)
        self._runners.wake()
        if turn.deliveries:
            self._intake.handlers_begin()
        self._handler.on_turn(turn)

    async def _leave(self) -> None:
        try:
            await self._lane.leave()
        except REFUSED as error:
            logger.warning("the lease of %s ends by itself, it can't be given back: %s", self.worker, error)

    async def _close(self) -> None:
        tasks = self._runners.end() | self._intake.end()
        if tasks:
            await asyncio.wait(tasks)
        self._lane.close()

    # What others may ask or tell

    @property
    def worker(self) -> str:
        """Name of the current incarnation."""
        return self._lane.worker

    @property
    def incarnation(self) -> Incarnation:
        """The current incarnation, as the heartbeat tells of it."""
        return self._lane.incarnation

    @property
    def is_cut_off(self) -> bool:
        """It has tried for longer than a lease to get an answer of the server: others should have what it holds."""
        return self._cut_off.is_too_long

    @property
    def held(self) -> int:
        """Deliveries that this worker holds."""
        return self._boxes.held

    def holds(self, agent_type: str, key: str) -> bool:
        """Whether something of an agent is handled here, waits, or is not committed yet."""
        return (agent_type.encode(), key.encode()) in self._boxes

    @property
    def running(self) -> int:
        """Handlers under way."""
        return self._places.running

    def handled_in(self, task: asyncio.Task[Any]) -> Delivery | None:
        """The delivery that is handled in this task. May be called from another thread."""
        # A copy, made in one go: the handler may end meanwhile, and its delivery leave the queue.
        return next(
            (first for box in self._boxes if box.task is task for first in tuple(box.queue)[:1]), None
        )

    def running_by_type(self) -> dict[str, int]:
        """Handlers under way, by agent type. May be called from another thread."""
        running: dict[str, int] = {}
        for mailbox in self._boxes:
            if mailbox.task is not None:
                name = mailbox.key[0].decode()
                running[name] = running.get(name, 0) + 1
        return running

    @property
    def is_idle(self) -> bool:
        """Nothing is held and the last turn brought nothing."""
        return not self._boxes.held and not self._intake.is_hungry

    def nudge(self) -> None:
        """Takes a turn soon."""
        self._intake.nudge()

    def add_waiting(self, number: int, agent_type: str) -> None:
        """So many more handlers wait for a reply, or fewer; while they wait, others may run in their place."""
        self._places.add_waiting(number, agent_type)
        if number > 0:
            self._runners.wake()
            self.nudge()

    async def add_types(self, types: Iterable[ConsumedType]) -> None:
        """Works for these agent types as well."""
        known = list(self._intake.types)
        added = [each for each in types if each.name not in self._intake.types]
        self._places.add_types(added)
        self._intake.add_types(added)
        if added and self.joined.is_set():
            await self._lane.announce(list(self._intake.types))
            await self._intake.listen_anew(known)

    def step_back(self, concerns: Callable[[Delivery], bool]) -> None:
        """Gives back what has not begun of every agent that holds such a delivery; what runs goes on."""
        if self._boxes.step_back(concerns):
            self._wake.set()

    def interrupt(self, concerns: Callable[[Delivery], bool]) -> None:
        """The same, and what runs of such a delivery is cancelled and goes back; no attempt is counted."""
        running = [box for box in self._boxes if box.task is not None and concerns(box.queue[0])]
        # guard: a pause at once ends what runs
        self._runners.cancel(running, "interrupted")
        self.step_back(concerns)

    def drain(self) -> None:
        """Takes nothing new; `run` ends when what runs has ended."""
        self._boxes.close_all()
        self._wake.set()

    def give_up(self) -> None:
        """Cancels what still runs; it goes to other workers and counts no attempt."""
        self._runners.cancel(self._boxes, "released")
