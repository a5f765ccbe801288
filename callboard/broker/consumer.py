"""A worker's loop: it takes turns at the server, has deliveries handled, and finds its way back after a failure.

One turn is one call that commits what is finished and pulls new deliveries; while it is under way the handlers run, so
that server and worker work at the same time. Messages of different agents are handled at once, those of one agent one
after the other.

A runner is a task that handles one delivery after another, of any agents. Another one is started only when a handler
waits for something, so that handlers that never wait share a task and cost no task switch.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, cast

from .envelope import Delivery
from .errors import (
    CommandError,
    ConnectionLostError,
    EncodeError,
    FencedError,
    OverloadedError,
    ServerUnavailableError,
)
from .intake import Brought, Intake
from .mailbox import (
    ConsumedType,
    DeliveryHandler,
    Ending,
    HandlingWorker,
    Incarnation,
    Lane,
    Mailbox,
    Mailboxes,
    Places,
    Portion,
    Turn,
)
from .outcome import Commit, DeadLetter, ErrorInfo, Outcome, Release
from .retry import Backoff, RetryPolicy
from .settings import BrokerSettings
from .telemetry import Fenced, emit

__all__ = []


logger = logging.getLogger("callboard.broker")

FEW = 4
"""Deliveries of a turn that begin before the next turn is sent, which carries the commits of those that end at once.

A turn costs the server as much as several small handlers cost the worker: one that only asks for more is saved. With more
deliveries, the server had better work at the same time.
"""

REFUSED = (ServerUnavailableError, CommandError, OverloadedError)
"""The errors after which a call is repeated. The first of them includes a broken connection."""


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
        self, lane: Lane, types: Iterable[ConsumedType], handler: DeliveryHandler, settings: BrokerSettings
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
        boxes = self._boxes
        if boxes.finished or (boxes.may_give_back and boxes.has_leftovers) or self._intake.wants_turn():
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

    async def _recover(self, sent: list[Ending], error: Exception) -> None:
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


class Runners:
    """All runners of a worker.

    Args:
        boxes: what is held: runners take the runnable mailboxes and add what is finished.
        places: how many handlers may run.
        intake: told when a handler has ended.
        handler: handles deliveries.
        worker: given to the handler with each delivery.
        retry: decides about a handler that failed without saying how it ended.
    """

    def __init__(
        self,
        boxes: Mailboxes,
        places: Places,
        intake: Intake,
        handler: DeliveryHandler,
        worker: HandlingWorker,
        retry: RetryPolicy,
    ) -> None:
        self._boxes = boxes
        self._places = places
        self._intake = intake
        self._handler = handler
        self._worker = worker
        self._retry = retry
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._one_is_coming = False
        self._ending = False

    def wake(self) -> None:
        """Sees to it that a runner takes the next runnable mailbox.

        One at a time: the runner that comes wakes the next one when there is more than it can take. A runner that was
        woken runs only after the current task has waited for something; until then `_one_is_coming` says so, or each
        delivery of a turn would start a runner, all but the first of which find nothing to do.
        """
        if self._one_is_coming or not self._boxes.runnable:
            return
        if self._idle:
            self._one_is_coming = True
            self._idle.popleft().set_result(None)
        elif len(self._tasks) < self._places.total:
            self._one_is_coming = True
            task = self._loop.create_task(self._run(), name="callboard-runner")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @staticmethod
    def cancel(mailboxes: Iterable[Mailbox], reason: str) -> None:
        """Cancels the handlers that run for these mailboxes; their deliveries go back and count no attempt."""
        for mailbox in mailboxes:
            if mailbox.task is not None:
                mailbox.ended = True
                mailbox.task.cancel(reason)

    def end(self) -> set[asyncio.Task[None]]:
        """Cancels all runners; returns those whose end is to be waited for."""
        self._ending = True
        for mailbox in self._boxes:
            mailbox.ended = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        return tasks

    # What a runner does

    async def _run(self) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        while True:
            self._one_is_coming = False
            while (mailbox := self._next_mailbox()) is not None:
                # The hand-over: whether this handler is going to wait is not known before, and once it waits, this
                # runner can't wake another. So another is woken first. If the handler does not wait, the other
                # finds the rest of the queue, or nothing, and goes to sleep again.
                if self._boxes.runnable:
                    self.wake()
                await self._handle_first(mailbox, task)
            rest: asyncio.Future[None] = self._loop.create_future()
            self._idle.append(rest)
            await rest

    def _next_mailbox(self) -> Mailbox | None:
        """The next mailbox whose agent type may run one more handler; it has its place then."""
        runnable = self._boxes.runnable
        while runnable:
            mailbox = runnable.popleft()
            if not mailbox.closing and self._places.enter(mailbox):
                return mailbox
        return None

    async def _handle_first(self, mailbox: Mailbox, task: asyncio.Task[None]) -> None:
        delivery = mailbox.queue[0]
        mailbox.task = task
        try:
            outcome = await self._handler.handle(delivery, self._worker)
            # guard: a handler that cancels its own task cancels nothing else
            if task.cancelling() and not mailbox.ended:
                await self._go_on(task)
        except asyncio.CancelledError as error:
            if self._ending:
                raise
            outcome = self._cancelled(mailbox, delivery, error)
            await self._go_on(task)
        except Exception as error:  # the agent must not hang, nor what waits behind this delivery
            logger.exception("the host failed on an entry of %s", delivery.stream.decode(errors="replace"))
            outcome = self._retry.decide(delivery.attempt, error)
        finally:
            mailbox.task = None
            freed = self._places.leave(mailbox.key[0])
            if freed is not None:
                self._boxes.runnable.append(freed)
        self._finish(mailbox, delivery, outcome, task)

    def _cancelled(self, mailbox: Mailbox, delivery: Delivery, error: asyncio.CancelledError) -> Outcome:
        """Cancelled by this worker: it goes back. By the handler's own doing: it failed as with any other error."""
        if not mailbox.ended:
            return self._retry.decide(delivery.attempt, error)
        return Release("the worker stops")

    async def _go_on(self, task: asyncio.Task[None]) -> None:
        """The task was cancelled for the sake of a handler, or by it: that is not meant for the next one."""
        # A task that cancels itself is not interrupted before it waits for something the next time: that is here.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        if self._ending:
            raise asyncio.CancelledError
        _forget_cancellations(task)

    def _finish(
        self, mailbox: Mailbox, delivery: Delivery, outcome: Outcome, task: asyncio.Task[None]
    ) -> None:
        # The lease was lost while the handler ran, and another worker has the message: a commit of this one would
        # come on top of that worker's. A handler may have ignored that it was cancelled; its runner goes on with
        # others, for which the cancellation was not meant.
        # guard: what a fenced handler did is not committed
        if mailbox.fenced:
            _forget_cancellations(task)
            return
        # guard: a handler that ignores an interruption leaves none to the next
        if mailbox.ended and not self._ending:
            # It was interrupted and ended as if it had not been: neither is meant for the next one.
            mailbox.ended = False
            _forget_cancellations(task)
        if isinstance(outcome, Commit):
            mailbox.closing = mailbox.closing or outcome.alone
        elif not isinstance(outcome, DeadLetter):
            # It is going to be tried again, so nothing behind it may overtake it.
            # guard: after a retry the rest of its agent goes back
            mailbox.closing = True
        self._boxes.finish(mailbox)
        self._boxes.finished.append((delivery, outcome, False))
        self._intake.handler_ended()


def _forget_cancellations(task: asyncio.Task[None]) -> None:
    """A runner outlives the handlers that are cancelled in it."""
    while task.cancelling():
        task.uncancel()


FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds before the server is asked again what it refused: no handler notices the first, and a server that loads its
data or fails over is not kept from it by its workers' questions."""


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
        handler: DeliveryHandler,
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

    async def find_out(self, sent: Sequence[Ending], error: Exception) -> None:
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
        backoff, said = Backoff(FIRST_PAUSE, LONGEST_PAUSE), ""
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
                await asyncio.sleep(backoff.pause())

    async def _reconnect(self) -> None:
        while True:
            try:
                await self._lane.reconnect(self._timeout)
                return
            except ServerUnavailableError as error:
                logger.warning("no connection to the server, trying again: %s", error)
                if self._boxes.is_draining:
                    raise

    def _take_stock(self, sent: Sequence[Ending], held: dict[tuple[bytes, bytes, bytes], Delivery]) -> None:
        """Makes what this worker believes to hold what the server says that it holds.

        The call may have been lost before the server or its answer after it. Of what was sent, the server still
        holds only what it has not committed: that is sent again, in front of what ended meanwhile, so that the
        commits of an agent keep their order. What it holds and this worker never saw came with the lost answer.
        """
        # guard: what was committed is not sent again
        again = [item for item in sent if item[0].reference in held]
        for delivery, _, _ in again:
            self._boxes.restore(delivery.mailbox)
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

    async def start_again(self, refused: Sequence[Ending]) -> None:
        """Forgets everything and becomes a new incarnation: other workers have what this one held."""
        emit(Fenced, self._lane.worker, self._boxes.held)
        finished = [delivery.mailbox for delivery, _, _ in (*refused, *self._boxes.finished)]
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
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                await self._join()
                return
            except REFUSED as error:
                if self._boxes.is_draining:
                    raise
                logger.warning("cannot join again: %s", error)
                await self._reconnect()
                await asyncio.sleep(backoff.pause())

    # Something can't be written

    def without_unsendable(self, sent: Sequence[Ending], error: EncodeError) -> list[Ending]:
        """The same with a dead letter for each that can't be written, so that the others can leave.

        Nothing of the turn has left. What goes back unhandled has nothing in it that could not be written.
        """
        letter = DeadLetter("unsendable", ErrorInfo(type(error).__name__, str(error)))
        return [
            (delivery, outcome if self._lane.can_send(delivery, outcome) else letter, False)
            for delivery, outcome, _ in sent
        ]


TICKS = 10  # in a lease


class CutOff:
    """The time that a worker spends on finding its way back to the server.

    Its heartbeat has a connection of its own and may get through where the worker does not. Then the lease has to end, or
    no worker would ever handle what this worker holds.

    Its clock stands still while the event loop is blocked: a handler that blocks it for an hour keeps the
    worker from trying, which says nothing about the server. One turn of the loop counts as one tick at most.

    Args:
        lease: seconds that it may last.
    """

    def __init__(self, lease: float) -> None:
        self._pause = lease / TICKS
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def is_too_long(self) -> bool:
        """It lasts longer than a lease. Also asked by the heartbeat's thread."""
        return self._ticks > TICKS

    def __enter__(self) -> None:
        self._timer = self._loop.call_later(self._pause, self._tick)

    def _tick(self) -> None:
        self._ticks += 1
        self._timer = self._loop.call_later(self._pause, self._tick)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._ticks = 0
