"""Requests that their senders may cancel while they are handled here, or before."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

from callboard.broker.delivery import Delivery

from .execution import Execution

MOST_CANCELLED = 1000  # cancelled requests that are remembered until they come to their turn


class CancellableRequest:
    """A request that is being handled and may be cancelled from another process."""

    def __init__(self, execution: Execution) -> None:
        self.message_id = execution.envelope.id
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._token = execution.context.cancellation_token
        self._is_cancelled = False
        self._has_ended = False

    def cancel(self) -> None:
        """Its handler gets CancelledError; its token, and what the handler passed it on to, is cancelled first."""
        # The task outlives its handler: it goes on to the outcome. An order that comes then must not cancel it, or the
        # worker would take it for one that it ends itself, and the delivery would have no outcome.
        if not self._is_cancelled and not self._has_ended:
            self._is_cancelled = True
            try:
                self._token.cancel()
            finally:
                self._task.cancel("cancelled by its sender")

    def ends(self) -> bool:
        """The handler is over, so that its task goes on; whether it was cancelled."""
        if not self._has_ended and self._is_cancelled:
            # Otherwise `is_being_cancelled` would take the rest of the task for one that its worker ends.
            self._task.uncancel()
        self._has_ended = True
        return self._is_cancelled


class CancellableRequests:
    """Those of one worker: what is being handled, and what was cancelled before its handler began."""

    def __init__(self) -> None:
        # Several of one id: a handler that goes on although its worker lost the lease, and the one that runs in its place.
        self._running: dict[str, list[CancellableRequest]] = {}
        self._cancelled: deque[str] = deque(maxlen=MOST_CANCELLED)

    def cancel(self, message_id: str) -> None:
        """Ends the handler of a request, or keeps it from beginning."""
        requests = self._running.get(message_id)
        if requests is None:
            # The order came by the stream `control`, ahead of the request, which still waits in its inbox or mailbox.
            self._cancelled.append(message_id)
            return
        for request in tuple(requests):
            request.cancel()

    def is_cancelled(self, message_id: str) -> bool:
        """Whether it was cancelled before its handler began."""
        return message_id in self._cancelled

    def begin(self, execution: Execution) -> CancellableRequest:
        """The request whose handler begins in this task."""
        request = CancellableRequest(execution)
        self._running.setdefault(request.message_id, []).append(request)
        return request

    def end(self, request: CancellableRequest) -> None:
        """It is not handled any more."""
        requests = self._running[request.message_id]
        requests.remove(request)
        if not requests:
            del self._running[request.message_id]
        request.ends()


def is_being_cancelled() -> bool:
    """Whether this task is told to end; a handler may also raise CancelledError because what it awaited was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_ended(delivery: Delivery) -> bool:
    """Whether the worker cancelled the handler; else the handler has cancelled its own task."""
    return delivery.mailbox is None or delivery.mailbox.ended
