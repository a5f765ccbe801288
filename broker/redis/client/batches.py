"""Calls with a number, each carried out once even when its answer was lost: `lua/shared/batches.lua` knows the last one."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

from callboard.broker.errors import ConnectionLostError, ServerUnavailableError

from .clock import steady_ms
from .connection import Link
from .endpoint import Argument

FIRST_PAUSE: Final = 0.01  # seconds before a batch is sent again that was refused or lost
LONGEST_PAUSE: Final = 0.5


def new_producer() -> str:
    """A name that no other process has, nor another publisher of this one."""
    return f"{os.getpid():x}{os.urandom(6).hex()}"


async def send_batch(link: Link, function: str, arguments: list[Argument]) -> tuple[list[Any], float]:
    """Calls a function whose first arguments are producer and number; again, as long as no server answers.

    Returns:
        The answer, and when it was asked for, by `steady_ms`.

    Raises:
        ConnectionLostError, ServerUnavailableError: no answer within `socket_timeout`, or the link was closed.
    """
    deadline = asyncio.get_running_loop().time() + link.settings.socket_timeout
    pause = FIRST_PAUSE
    while True:
        asked = steady_ms()
        try:
            return await link.run(function, arguments), asked
        except (ConnectionLostError, ServerUnavailableError):
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or link.is_closed:
                raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            # guard: a batch that is sent again keeps its number
            await link.reconnect(left)
