"""The thread in which the runs of programs live that are not async: one for the whole process, with an event loop."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

from .errors import LoopError

T = TypeVar("T")

GRACE: Final = 5.0  # seconds that runs get to end when the process ends
INSIDE: Final = "it is called by an agent of such a run, which would wait for itself; use `await a_run(...)`"


class LoopThread:
    """A thread with an event loop, until `close`.

    One for all runs, as clients of models hold connections that belong to a loop. It is a daemon: a process whose main
    thread has ended does not wait for it; `close` is called before.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._ready: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._ending: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._main, name="callboard-runs", daemon=True)
        self._thread.start()
        self.loop = self._ready.result()

    def call(self, work: Coroutine[Any, Any, T], what: str) -> T:
        """Do something in the loop, and wait for it.

        Args:
            work: What to do. When this thread is interrupted, it is cancelled.
            what: Its name, for an error.

        Raises:
            LoopError: This is the thread itself (a RuntimeError).
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise LoopError(what, INSIDE)
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def post(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something in the loop without waiting."""
        try:
            asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:  # the loop is closed: nothing is left to do
            work.close()

    def at_end(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call something in the loop before it ends."""
        self._closers.append(close)

    def close(self) -> None:
        """End all runs, and the thread. What does not end in time ends with the process."""
        ending = self._ending
        if ending is not None and self._thread.is_alive() and self.pid == os.getpid():
            self.loop.call_soon_threadsafe(ending.set)
            self._thread.join(GRACE)

    def _main(self) -> None:
        asyncio.run(self._live())  # at its end it cancels what is still running

    async def _live(self) -> None:
        self._ending = asyncio.Event()
        self._ready.set_result(asyncio.get_running_loop())
        await self._ending.wait()
        async with AsyncExitStack() as closing:  # all of them, although one fails
            for close in self._closers:
                closing.push_async_callback(close)


_lock = threading.Lock()
_current: LoopThread | None = None


def loop_thread() -> LoopThread:
    """The thread of this process; it begins when it is first asked for, and ends with the process."""
    global _current  # noqa: PLW0603 - there is one for the process
    with _lock:
        if _current is None or _current.pid != os.getpid():  # after a fork the thread is the parent's
            _current = LoopThread()
            # Before the pools of threads end, which closing a runtime needs; what `atexit` knows runs after that.
            at_end: Callable[..., object] = getattr(threading, "_register_atexit", atexit.register)
            at_end(_current.close)
        return _current
