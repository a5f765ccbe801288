"""One worker process: works until it is told to stop, then drains."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .runtime import RedisAgentRuntime

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LAST_RESORT = 3.0  # seconds after the second signal until the process ends whatever it does
EXIT_AT_ONCE = 130
LOOK_EVERY = 1.0  # seconds between two looks at whether the runtime still works


class StopRequest:
    """What this process was asked: to drain, then to stop at once.

    The handlers are plain Python signal handlers: they run although user code blocks the event loop, so that
    the second signal ends the process in any case.

    Args:
        last_resort: End the process `LAST_RESORT` seconds after the second signal, although the event loop
            hangs.
    """

    def __init__(self, *, last_resort: bool = False) -> None:
        self.drain = asyncio.Event()
        self.at_once = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._last_resort = last_resort
        self._asked = 0

    def ask(self) -> None:
        """Asks to stop; the second time at once. May be called from a signal handler or another thread."""
        self._asked += 1
        event = self.drain if self._asked == 1 else self.at_once
        if self._asked == 2 and self._last_resort:
            timer = threading.Timer(LAST_RESORT, os._exit, (EXIT_AT_ONCE,))
            timer.daemon = True
            timer.start()
        self._loop.call_soon_threadsafe(event.set)

    @contextlib.contextmanager
    def on_signals(self, numbers: Sequence[signal.Signals] = STOP_SIGNALS) -> Iterator[None]:
        """Asks for each of these signals while it lasts. Only in the main thread."""

        def handler(_number: int, _frame: FrameType | None) -> None:
            self.ask()

        before = {number: signal.signal(number, handler) for number in numbers}
        try:
            yield
        finally:
            for number, previous in before.items():
                signal.signal(number, previous)

    @contextlib.contextmanager
    def on_end_of_file(self, descriptor: int | None) -> Iterator[None]:
        """Asks once when the other end of this pipe is closed: the process that held it is gone."""
        if descriptor is None:
            yield
            return
        os.set_inheritable(descriptor, False)
        self._loop.add_reader(descriptor, self._orphaned, descriptor)
        try:
            yield
        finally:
            self._loop.remove_reader(descriptor)

    def _orphaned(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        _silence()
        if self._asked == 0:
            self.ask()


def _silence() -> None:
    """Lets handlers go on printing although nobody reads their output any more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class WorkerEnding(enum.Enum):
    """How a worker ended."""

    DRAINED = "drained"
    AT_ONCE = "at once"


async def run_worker(
    runtime: RedisAgentRuntime,
    *,
    grace: float | None = None,
    watch: int | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> WorkerEnding:
    """Works until SIGTERM, SIGINT or SIGHUP, or until its supervisor is gone; then drains.

    Args:
        runtime: Made for the types that this process runs; it is closed in the end.
        grace: Seconds that running handlers get to finish; None: as the runtime's settings say. A second
            signal ends it.
        watch: Descriptor of a pipe whose end of file means that the supervisor is gone.
        announce: Told, in one line each, when it works and when it stops.

    Raises:
        BrokerError: The server can't be reached, or does not fit.
    """
    stop = StopRequest(last_resort=True)
    with stop.on_signals(), stop.on_end_of_file(watch):
        working = asyncio.ensure_future(_work(runtime, announce))
        try:
            await _before(stop.drain, working)
            if watch is None:
                announce("finishes what it runs and stops; a second signal stops it at once")
            drained = await _drain(runtime, grace, stop)
        finally:
            working.cancel()
            await runtime.close()
    announce(f"stopped; handled {runtime.handled} messages, {runtime.failed} attempts failed")
    return WorkerEnding.DRAINED if drained else WorkerEnding.AT_ONCE


async def _work(runtime: RedisAgentRuntime, announce: Callable[[str], None]) -> None:
    """Goes on until it is cancelled; raises what ends the runtime."""
    runtime.start()
    await runtime.ready()
    announce(f"works as {runtime.worker}")
    while True:
        await asyncio.sleep(LOOK_EVERY)
        await runtime.ready()


async def _drain(runtime: RedisAgentRuntime, grace: float | None, stop: StopRequest) -> bool:
    draining = asyncio.create_task(runtime.drain(grace))
    in_time = await _before(stop.at_once, draining)
    if not in_time:
        # What still runs is cancelled and goes to the others now, without counting an attempt.
        await runtime.drain(0)
    await draining
    return in_time


async def _before(event: asyncio.Event, work: asyncio.Future[Any]) -> bool:
    """Waits for either; True, or its error, when `work` came first."""
    waiting: asyncio.Future[Any] = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((work, waiting), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        return work.done()
    finally:
        waiting.cancel()
