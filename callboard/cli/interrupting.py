"""Ctrl-C for a command that has something to call off first."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator

from .exits import INTERRUPTED

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruptible(call_off: Callable[[], None]) -> Iterator[None]:
    """Calls `call_off` for the first of these signals; the second ends the process at once. Within a running loop."""
    loop = asyncio.get_running_loop()

    def end_at_once() -> None:
        os._exit(INTERRUPTED)

    def interrupt() -> None:
        for number in SIGNALS:
            loop.add_signal_handler(number, end_at_once)
        call_off()

    for number in SIGNALS:
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
