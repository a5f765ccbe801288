"""How long a worker has been without an answer of its server, so that its lease is only as alive as its turns."""

from __future__ import annotations

import asyncio
from types import TracebackType

TICKS = 10  # in a lease


class CutOff:
    """The time that a worker spends on finding its way back to the server.

    Its heartbeat has a connection of its own and may get through where the worker does not. Then the lease has to end, or
    nobody would ever handle what this worker holds.

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
