"""The tasks that run handlers.

A runner is a task that handles one delivery after another, of any agents. Another one is started only when a handler
waits for something, so that handlers that never wait share a task and cost no task switch.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable
from typing import cast

from callboard.broker.delivery import Delivery
from callboard.broker.outcome import Commit, DeadLetter, Outcome, Release
from callboard.broker.retry import RetryPolicy

from .intake import Intake
from .interfaces import Handler, HandlingWorker
from .mailbox import Mailbox, Mailboxes
from .places import Places

logger = logging.getLogger("callboard.broker")


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
        handler: Handler,
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
        self._boxes.finished.append((mailbox, delivery, outcome))
        self._intake.handler_ended()


def _forget_cancellations(task: asyncio.Task[None]) -> None:
    """A runner outlives the handlers that are cancelled in it."""
    while task.cancelling():
        task.uncancel()
