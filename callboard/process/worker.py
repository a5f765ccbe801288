"""One worker process: it works until it is told to stop, then drains."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from callboard.foundation import ActorError

if TYPE_CHECKING:
    from callboard.broker import BrokerSettings
    from callboard.runtime.runtime import RedisAgentRuntime


STATM = Path("/proc/self/statm")
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LAST_RESORT = 3.0  # seconds after the second signal until the process ends, even if its event loop hangs
EXIT_AT_ONCE = 130
LOOK_EVERY = 1.0  # seconds between two looks at whether the runtime still works
LOOK_AT_LIMITS_EVERY = 0.1  # seconds between two looks at a worker that has limits
RECYCLED = 79
"""Exit status of a worker that has passed `max_memory` or `max_messages` and has drained: start it again, at once."""

UNFIT = 78
"""Exit status of a worker that would meet the same error again: it lacks rights, or `max_memory` is too low to begin."""


class WorkerProcessError(ActorError):
    """A worker process can't work, or died more often than it is started again."""

    template = "{text}"

    text: str
    is_unfit: bool = False  # to start it again would not help, see UNFIT

    @classmethod
    def of_memory(cls, limit: int, resident: int) -> WorkerProcessError:
        """A worker takes more memory than it may before it handles its first message; both in bytes."""
        takes, may_take = _megabytes(resident), _megabytes(limit)
        return cls(
            f"this worker takes {takes} before its first message and may take {may_take}: raise max_memory",
            True,
        )


class StopRequest:
    """The request to stop this process: first to drain, then to end at once.

    The handlers are plain Python signal handlers, not those of the event loop: they run although an agent's code blocks
    the loop, so that the second signal ends the process in any case.

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
        # A signal handler runs between any two bytecodes, also in the middle of the loop's own bookkeeping, and a loop that
        # sleeps in select() would not notice a plain set(): this wakes it.
        self._loop.call_soon_threadsafe(event.set)

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Asks for each of STOP_SIGNALS while it lasts. Only in the main thread."""

        def handler(_number: int, _frame: FrameType | None) -> None:
            self.ask()

        before = {number: signal.signal(number, handler) for number in STOP_SIGNALS}
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
        # Programs that handlers start must not have it. End of file lasts: a supervisor that died before this line is
        # noticed as well.
        os.set_inheritable(descriptor, False)
        self._loop.add_reader(descriptor, self._orphaned, descriptor)
        try:
            yield
        finally:
            self._loop.remove_reader(descriptor)

    def _orphaned(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        _silence()
        # A supervisor that told this process to drain and then died has asked once, not twice: handlers may finish.
        if self._asked == 0:
            self.ask()


def _silence() -> None:
    """Lets handlers go on printing although the reader of their output is gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class WorkerEnding(enum.Enum):
    """The ways in which a worker ends."""

    DRAINED = "drained"
    AT_ONCE = "at once"
    RECYCLED = "recycled"


async def run_worker(
    runtime: RedisAgentRuntime,
    *,
    grace: float | None = None,
    watch: int | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> WorkerEnding:
    """Works until SIGTERM, SIGINT or SIGHUP, until its supervisor is gone, or until it passes a limit; then drains.

    The limits are `max_memory` and `max_messages` of the settings. What drains for them gives everything back as for
    a signal: no attempt is counted, nothing is lost.

    Args:
        runtime: Made for the types that this process runs; it is closed in the end.
        grace: Seconds that running handlers get to finish; None: as the runtime's settings say. A second
            signal ends it.
        watch: Descriptor of a pipe whose end of file means that the supervisor is gone.
        announce: Gets a line when it works, and when it stops.

    Raises:
        BrokerError: The server can't be reached, or does not fit.
        WorkerProcessError: It passes `max_memory` before its first message.
    """
    stop = StopRequest(last_resort=True)
    with stop.on_signals(), stop.on_end_of_file(watch):
        working = asyncio.ensure_future(_work(runtime, announce))
        try:
            if await _before(stop.drain, working):
                announce(f"{working.result()}: finishes what it runs, to be replaced")
            elif watch is None:
                announce("finishes what it runs and stops; a second signal stops it at once")
            drained = await _drain(runtime, grace, stop)
        finally:
            working.cancel()
            await runtime.close()
    announce(f"stopped; handled {runtime.handled} messages, {runtime.failed} attempts failed")
    if not drained:
        return WorkerEnding.AT_ONCE
    # SIGTERM may come while it drains for a limit. Then RECYCLED would be wrong: the supervisor would start it again.
    return WorkerEnding.DRAINED if stop.drain.is_set() else WorkerEnding.RECYCLED


async def _work(runtime: RedisAgentRuntime, announce: Callable[[str], None]) -> str:
    """Goes on until it is cancelled, or passes a limit: then says which. Raises what ends the runtime."""
    runtime.start()
    await runtime.ready()
    settings = runtime.settings
    if 0 < settings.max_memory <= (resident := resident_bytes()):
        raise WorkerProcessError.of_memory(settings.max_memory, resident)
    announce(f"works as {runtime.worker}")
    pause = LOOK_AT_LIMITS_EVERY if settings.max_memory or settings.max_messages else LOOK_EVERY
    while True:
        await asyncio.sleep(pause)
        await runtime.ready()
        if passed := _passed_limit(settings, runtime.handled + runtime.failed):
            return passed


def _passed_limit(settings: BrokerSettings, messages: int) -> str:
    """The limit that this process has passed, as a sentence; "" when none."""
    if 0 < settings.max_messages <= messages:
        return f"handled {messages} messages, max_messages is {settings.max_messages}"
    if 0 < settings.max_memory <= (resident := resident_bytes()):
        return f"takes {_megabytes(resident)}, max_memory is {_megabytes(settings.max_memory)}"
    return ""


def resident_bytes() -> int:
    """Resident memory of this process, bytes.

    On Linux the present amount (`/proc/self/statm`, in pages), elsewhere the highest so far (getrusage).
    """
    try:
        pages = int(STATM.read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return _peak_bytes()
    return pages * os.sysconf("SC_PAGE_SIZE")


def _peak_bytes() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _megabytes(number: int) -> str:
    return f"{number / 10**6:.0f} MB"


async def _drain(runtime: RedisAgentRuntime, grace: float | None, stop: StopRequest) -> bool:
    draining = asyncio.create_task(runtime.drain(grace))
    in_time = await _before(stop.at_once, draining)
    if not in_time:
        # Handlers that still run are cancelled, and their messages go to other workers now without counting an attempt.
        # The first drain is still under way; this one shortens it, and both end together.
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
