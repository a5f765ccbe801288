"""A worker's loop: take entries, have them handled, commit what is finished.

One turn is one call to the server that commits what is done and takes new entries; while it is under way the handlers
run, so that server and worker work at the same time. Handlers of different keys run at once, handlers of one key one
after the other. Runners are tasks that handle one entry after another; another runner is woken only when a handler
waits for something, so a handler that never waits costs no task switch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from .commits import as_done
from .delivery import Delivery
from .errors import (
    CommandError,
    ConnectionLostError,
    EncodeError,
    FencedError,
    OverloadedError,
    ServerUnavailableError,
)
from .mailbox import Mailbox, Mailboxes
from .outcome import Commit, DeadLetter, ErrorInfo, Outcome, Release
from .redis.lane import Done, Turn, Want, WorkerLane, is_sendable
from .retry import RetryPolicy
from .settings import BrokerSettings
from .telemetry import Fenced, emit

logger = logging.getLogger("callboard.broker")

AHEAD = 0.05  # seconds of work that a worker may hold beyond what runs
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds before the server is asked again what it refused
# The first of them includes that the connection broke.
REFUSED = (ServerUnavailableError, CommandError, OverloadedError)
Finished = tuple[Mailbox, Delivery, Outcome]
PATIENCE = 5.0  # seconds that a worker stays without new work so that a suspect is tried alone
BYTES_AHEAD = 16 * 1024 * 1024  # of bodies that a worker may hold, as far as it can foresee


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeLimits:
    """How one agent type is consumed.

    Attributes:
        persistent: its agents keep their state in Redis.
        concurrency: handlers at once in this process; None for the worker's own.
        rate_limit: messages a second that all workers together take; None: no limit.
    """

    persistent: bool = False
    concurrency: int | None = None
    rate_limit: float | None = None


class Host(Protocol):
    """What the consumer works for."""

    async def declare(self) -> None:
        """Makes agent types and subscriptions known; called again after the server lost its data."""

    def accepts(self) -> Mapping[str, int]:
        """The messages this process knows, with their versions; newer ones wait for another."""
        ...

    async def handle(self, delivery: Delivery) -> Outcome:
        """Handles one entry; every failure is an outcome, nothing is raised but CancelledError."""
        ...

    def fenced(self, running: Sequence[Delivery]) -> None:
        """The lease was lost while these were being handled; nothing of them will be committed."""

    def on_turn(self, turn: Turn) -> None:
        """A turn was answered."""


class Consumer:
    """One worker for some agent types."""

    def __init__(
        self, lane: WorkerLane, types: Mapping[str, TypeLimits], host: Host, settings: BrokerSettings
    ) -> None:
        self._lane = lane
        self._types = dict(types)
        self._limits = _concurrency(types)
        self._host = host
        self._settings = settings
        self._boxes = Mailboxes()
        self._finished: list[Finished] = []
        self._wake = asyncio.Event()
        self._bell: asyncio.Task[None] | None = None
        self._runners: set[asyncio.Task[None]] = set()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._helper_coming = False
        self._running_by_type: dict[bytes, int] = {}
        self._held_back: dict[bytes, deque[Mailbox]] = {}
        self.running = 0
        self._waiting = 0
        self._draining = False
        self._steps_back = False
        self._ending = False
        self._ramp = 1
        self._scan = True
        self._hungry = True
        self._next_poll = settings.idle_poll
        self._alarm: asyncio.TimerHandle | None = None
        self._wait_empty = False
        self._patience: asyncio.TimerHandle | None = None
        self._patience_is_over = False
        self._rate = 0.0
        self._typical_size = 1.0
        self._completed = 0
        self._last_turn = 0.0
        self.loop = asyncio.get_running_loop()
        self.joined = asyncio.Event()

    # What others may ask or tell

    @property
    def worker(self) -> str:
        """Name of the current incarnation."""
        return self._lane.worker

    @property
    def held(self) -> int:
        """Entries that this worker holds."""
        return self._boxes.held

    @property
    def is_idle(self) -> bool:
        """Nothing is held and the last turn brought nothing."""
        return not self._boxes.held and not self._finished and not self._hungry

    def add_waiting(self, number: int) -> None:
        """So many more handlers wait for a reply, or fewer.

        They leave their place to others: the request may have to be handled by this very worker.
        """
        self._waiting += number
        if number > 0:
            self._help()
            self.nudge()

    @property
    def _places(self) -> int:
        """How many handlers may be under way."""
        return self._settings.concurrency + self._waiting

    def nudge(self) -> None:
        """Takes a turn soon."""
        self._hungry = True
        self._wake.set()

    async def add_types(self, types: Mapping[str, TypeLimits]) -> None:
        """Works for these agent types as well."""
        known = list(self._types)
        self._types.update(types)
        self._limits.update(_concurrency(types))
        if self.joined.is_set() and len(self._types) > len(known):
            await self._lane.announce(list(self._types))
            await self._stop_listening(known)
        self._scan = True
        self.nudge()

    async def _stop_listening(self, known: Sequence[str]) -> None:
        """Whoever waits for the bells of the known types is to hear new ones too."""
        if self._bell is None:
            return
        if known:
            await self._lane.ring(known[0])
        else:
            self._bell.cancel()  # there was no bell to wait for, so that no token can be lost

    def step_back(self, concerns: Callable[[Delivery], bool]) -> None:
        """Gives back what has not begun of every agent that holds such an entry; what runs goes on."""
        for mailbox in self._boxes:
            waiting = list(mailbox.queue)[1 if mailbox.task is not None else 0 :]
            if any(map(concerns, waiting)):
                self._boxes.close(mailbox)
                self._steps_back = True
        if self._steps_back:
            self._wake.set()

    def drain(self) -> None:
        """Takes nothing new; `run` ends when what runs has ended."""
        self._draining = True
        self._boxes.close_all()
        for waiting in self._held_back.values():
            waiting.clear()
        self._wake.set()

    def give_up(self) -> None:
        """Cancels what still runs; it goes to other workers and counts no attempt."""
        for mailbox in self._boxes:
            if mailbox.task is not None:
                mailbox.task.cancel("released")

    # The loop

    async def run(self) -> None:
        """Works until drained."""
        try:
            await self._join()
            while not (self._draining and not self._boxes.held and not self._finished):
                await self._wait_for_a_reason()
                await self._take_turn()
            await self._leave()
        finally:
            await self._end_tasks()

    async def _leave(self) -> None:
        try:
            await self._lane.leave()
        except REFUSED as error:
            logger.warning("the lease of %s ends by itself, it can't be given back: %s", self.worker, error)

    async def _join(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._host.declare()
                await self._lane.join(list(self._types), self._host.accepts())
                self.joined.set()
                return
            except REFUSED as error:
                if not self.joined.is_set() or self._draining:
                    raise
                logger.warning("cannot join again: %s", error)
                await self._reconnect()
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _wait_for_a_reason(self) -> None:
        if self._finished or self._has_leftovers() or (self._hungry and self._room() > 0):
            return
        if self._draining and not self._boxes.held:
            return
        if self._bell is None and self._room() > 0:
            self._bell = self.loop.create_task(self._listen(), name="callboard-bell")
        await self._wake.wait()
        self._wake.clear()

    def _has_leftovers(self) -> bool:
        return self._steps_back or (self._draining and any(box.task is None for box in self._boxes))

    async def _listen(self) -> None:
        """Waits for the bell once. A token that comes when there is no room any more is passed on."""
        try:
            rang = await self._lane.wait_for_bell(list(self._types), self._next_poll)
            if rang and self._room() <= 0:
                await self._lane.ring(rang)
            self._scan = self._scan or not rang
        finally:
            self._bell = None
            self.nudge()

    def _room(self) -> int:
        """How many entries this worker would take now."""
        if self._draining or self._wait_empty:
            return 0
        unstarted = self._boxes.held - self.running
        room = max(self._places - self._boxes.held, int(self._rate * AHEAD) - unstarted)
        fitting = int(BYTES_AHEAD / self._typical_size)
        most = min(self._settings.prefetch, max(1, fitting)) + self._waiting
        return min(self._ramp, room, most - self._boxes.held)

    async def _take_turn(self) -> None:
        self._wake.clear()
        sent = self._finished
        self._finished = []
        done = self._commits(sent)
        room = self._room()
        wants = []
        if room > 0:
            wants = [
                Want(name, room, limits.persistent, limits.rate_limit) for name, limits in self._types.items()
            ]
        scan, self._scan = self._scan and room > 0, self._scan and room <= 0
        self._measure()
        try:
            held = 0 if self._patience_is_over else self._boxes.held
            turn = await self._lane.turn(done, wants, held, scan, not self._draining)
        except FencedError:
            await self._start_again(sent)
        except EncodeError as error:
            await self._recover(_without_unsendable(done, sent, error), error)
        except REFUSED as error:
            await self._recover(sent, error)
        else:
            self._receive(turn, room)

    def _heed_suspects(self, one_waits: bool) -> None:
        """A suspect is tried alone: nothing new is taken until the worker is empty, or patience ends."""
        self._patience_is_over = False
        self._wait_empty = one_waits
        if one_waits and self._patience is None:
            self._patience = self.loop.call_later(PATIENCE, self._stop_waiting, True)

    def _stop_waiting(self, is_over: bool) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self._wait_empty = False
        self._patience_is_over = is_over
        self._hungry = True
        self._wake.set()

    def _measure(self) -> None:
        now = self.loop.time()
        elapsed = now - self._last_turn
        if elapsed > 0.001:
            self._rate = 0.5 * self._rate + 0.5 * self._completed / elapsed
            self._completed = 0
            self._last_turn = now

    def _commits(self, sent: Sequence[Finished]) -> list[Done]:
        """What is finished, as the server wants it, and what goes back with it."""
        done = []
        back: list[Delivery] = []
        for mailbox, delivery, outcome in sent:
            self._boxes.sent(mailbox)
            is_free, rest = self._boxes.close_if_done(mailbox)
            back += rest
            done.append(as_done(delivery, outcome, is_free, self._settings.dedupe_window))
        if self._draining or self._steps_back:
            self._steps_back = False
            for mailbox in self._boxes:
                back += self._boxes.close_if_done(mailbox)[1]
        done += [Done(delivery, "L", ()) for delivery in back]
        return done

    def _receive(self, turn: Turn, room: int) -> None:
        brought = len(turn.deliveries)
        if room > 0:
            self._heed_suspects(turn.suspects_wait and self._boxes.held + brought > 0)
        if brought:
            size = 0
            for delivery in turn.deliveries:
                size += len(delivery.body)
                self._boxes.add(delivery)
            self._typical_size = max(1.0, size / brought, 0.9 * self._typical_size)
            self._begin()
        self._hungry = turn.more or brought >= room > 0
        if self._hungry or brought:
            self._ramp = min(self._ramp * 2, max(1, self._settings.prefetch // 2))
        elif room > 0:
            self._ramp = 1
        poll = self._settings.idle_poll
        if turn.next_due_ms is not None:
            poll = min(poll, max(0.001, (turn.next_due_ms - turn.server_ms) / 1000))
        self._next_poll = poll
        self._look_again_in(poll)
        self._host.on_turn(turn)

    def _look_again_in(self, seconds: float) -> None:
        """Takes a turn when something is due.

        The wait for the bell is not enough: it may have begun before, and an idle server ends it up to 0.1 s late.
        """
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if seconds < self._settings.idle_poll:
            self._alarm = self.loop.call_later(seconds, self.nudge)

    def _begin(self) -> None:
        """Has handled what came. What comes after the drain began goes back."""
        if self._draining:
            self._boxes.close_all()
        self._help()

    # When something is wrong with the server

    async def _reconnect(self) -> None:
        while True:
            try:
                await self._lane.reconnect(self._settings.socket_timeout)
                return
            except ServerUnavailableError as error:
                logger.warning("no connection to the server, trying again: %s", error)
                if self._draining:
                    raise

    async def _recover(self, sent: Sequence[Finished], error: Exception) -> None:
        """The answer of a turn was lost: finds out what of it was carried out."""
        logger.warning("a turn failed, asking the server where we are: %s", error)
        patience_ends = self.loop.time() + self._settings.socket_timeout
        while True:
            await self._reconnect()
            try:
                held = await self._lane.resync()
                break
            except FencedError:
                await self._start_again(sent)
                return
            except REFUSED as again:
                if self._draining and self.loop.time() > patience_ends:
                    raise
                logger.warning("asking again: %s", again)
                await asyncio.sleep(FIRST_PAUSE)
        self._take_stock(sent, {delivery.reference: delivery for delivery in held})
        if not isinstance(error, ConnectionLostError):
            await asyncio.sleep(FIRST_PAUSE)  # the server refuses for now; do not ask in a loop

    def _take_stock(self, sent: Sequence[Finished], held: dict[tuple[bytes, bytes, bytes], Delivery]) -> None:
        again = [item for item in sent if item[1].reference in held]
        for mailbox, _, _ in again:
            self._boxes.restore(mailbox)
        self._finished = again + self._finished
        known = {delivery.reference for _, delivery, _ in self._finished}
        for mailbox in self._boxes:
            known.update(delivery.reference for delivery in mailbox.queue)
        for reference, delivery in held.items():
            if reference not in known:
                self._boxes.add(delivery)
        self._hungry = True
        self._begin()

    async def _start_again(self, refused: Sequence[Finished]) -> None:
        """The lease was lost: forget everything, become a new incarnation."""
        emit(Fenced, self._lane.worker, self._boxes.held)
        running = self._boxes.fence()
        finished = [mailbox for mailbox, _, _ in (*refused, *self._finished)]
        for agent_type, key in dict.fromkeys(mailbox.key for mailbox in (*finished, *running)):
            logger.warning(
                "fenced: the worker %s lost its lease; what it did for %s/%s is dropped, another worker does it",
                self._lane.worker,
                agent_type.decode(errors="replace"),
                key.decode(errors="replace"),
            )
        for mailbox in running:
            if mailbox.task is not None:
                mailbox.task.cancel("fenced")
        self._finished.clear()
        self._held_back.clear()
        self._wait_empty = False
        self._hungry = self._scan = True
        self._host.fenced([mailbox.queue[0] for mailbox in running if mailbox.queue])
        if not self._draining:
            await self._join()

    # Runners

    def _help(self) -> None:
        """Sees to it that somebody takes the next runnable mailbox."""
        if self._helper_coming or not self._boxes.runnable:
            return
        if self._idle:
            self._helper_coming = True
            self._idle.popleft().set_result(None)
        elif len(self._runners) < self._places:
            self._helper_coming = True
            runner = self.loop.create_task(self._run_handlers(), name="callboard-runner")
            self._runners.add(runner)
            runner.add_done_callback(self._runners.discard)

    async def _run_handlers(self) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        while True:
            self._helper_coming = False
            while self._boxes.runnable:
                mailbox = self._next_mailbox()
                if mailbox is None:
                    break
                if self._boxes.runnable:
                    self._help()
                await self._handle_first(mailbox, task)
            rest: asyncio.Future[None] = self.loop.create_future()
            self._idle.append(rest)
            await rest

    def _next_mailbox(self) -> Mailbox | None:
        """The next mailbox whose agent type may run one more handler."""
        while self._boxes.runnable:
            mailbox = self._boxes.runnable.popleft()
            if mailbox.closing:
                continue  # it stepped back while it waited for a place
            limit = self._limits.get(mailbox.key[0])
            if limit is None:
                return mailbox
            running = self._running_by_type.get(mailbox.key[0], 0)
            if running < limit:
                self._running_by_type[mailbox.key[0]] = running + 1
                return mailbox
            self._held_back.setdefault(mailbox.key[0], deque()).append(mailbox)
        return None

    async def _handle_first(self, mailbox: Mailbox, task: asyncio.Task[None]) -> None:
        delivery = mailbox.queue[0]
        mailbox.task = task
        self.running += 1
        try:
            outcome = await self._host.handle(delivery)
        except asyncio.CancelledError as error:
            if self._ending:
                raise
            outcome = self._cancelled(delivery, task, error)
        except Exception as error:  # the key must not hang, nor what waits behind it
            logger.exception("the host failed on an entry of %s", delivery.stream.decode(errors="replace"))
            outcome = RetryPolicy.of(self._settings).decide(delivery.attempt, error)
        finally:
            mailbox.task = None
            self.running -= 1
            if self._limits:
                self._let_next_in(mailbox.key[0])
        self._finish(mailbox, delivery, outcome)

    def _cancelled(
        self, delivery: Delivery, task: asyncio.Task[None], error: asyncio.CancelledError
    ) -> Outcome:
        """Cancelled by this worker: the entry goes back. By its own doing: it failed like with any other error."""
        if not task.cancelling():
            return RetryPolicy.of(self._settings).decide(delivery.attempt, error)
        while task.cancelling():
            task.uncancel()
        return Release("the worker stops")

    def _let_next_in(self, agent_type: bytes) -> None:
        if agent_type not in self._limits:
            return
        self._running_by_type[agent_type] -= 1
        waiting = self._held_back.get(agent_type)
        if waiting:
            self._boxes.runnable.append(waiting.popleft())

    def _finish(self, mailbox: Mailbox, delivery: Delivery, outcome: Outcome) -> None:
        if mailbox.fenced:
            return
        self._completed += 1
        if isinstance(outcome, Commit):
            mailbox.closing = mailbox.closing or outcome.alone
        elif not isinstance(outcome, DeadLetter):
            mailbox.closing = True
        self._boxes.finish(mailbox)
        self._finished.append((mailbox, delivery, outcome))
        if self._wait_empty and self._boxes.held == len(self._finished):
            self._stop_waiting(is_over=False)
        self._wake.set()

    async def _end_tasks(self) -> None:
        self._ending = True
        if self._alarm is not None:
            self._alarm.cancel()
        if self._patience is not None:
            self._patience.cancel()
        tasks = set(self._runners)
        if self._bell is not None:
            tasks.add(self._bell)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._lane.close()


def _without_unsendable(done: Sequence[Done], sent: Sequence[Finished], error: EncodeError) -> list[Finished]:
    """Nothing of the turn has left. What can't be written becomes a dead letter, so that the others can leave."""
    info = ErrorInfo(type(error).__name__, str(error))
    unsendable = DeadLetter("unsendable", info)
    # In `done` what goes back follows behind; it has nothing that could be wrong.
    pairs = zip(sent, done, strict=False)
    return [item if is_sendable(one) else (item[0], item[1], unsendable) for item, one in pairs]


def _concurrency(types: Mapping[str, TypeLimits]) -> dict[bytes, int]:
    return {name.encode(): limits.concurrency for name, limits in types.items() if limits.concurrency}
