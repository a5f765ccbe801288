"""Calls with a number, each carried out once even when its answer was lost: `lua/shared/batches.lua` knows the last one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

from callboard.broker.errors import CommandError, ConnectionLostError, ServerUnavailableError

from .clock import steady_ms
from .connection import Link
from .endpoint import Argument

FIRST_PAUSE: Final = 0.01  # seconds before a batch is sent again that was refused or lost
LONGEST_PAUSE: Final = 0.5
OVERTAKEN: Final = "OVERTAKEN"  # is in the server's error of a batch below the last one that it knows


class Producer:
    """Numbers the batches of one publisher.

    Attributes:
        name: no other process has it, nor another publisher of this one.
    """

    def __init__(self) -> None:
        self._rename()

    def _rename(self) -> None:
        self.name = f"{os.getpid():x}{os.urandom(6).hex()}"
        self._number = 0

    def next(self) -> tuple[str, int]:
        """The name, and the number of the next batch."""
        self._number += 1
        return self.name, self._number

    def overtaken(self, arguments: list[Argument], is_first: bool) -> None:
        """Goes on under another name: somebody has written by hand what the server knows of the batches of this one.

        Args:
            arguments: of the batch, which gets its new name and number.
            is_first: it was not sent before, so that it was not carried out.

        Raises:
            CommandError: it may have been carried out.
        """
        known = f"sent:{self.name}"
        self._rename()
        # guard: what may have been carried out is not sent under another name
        if not is_first:
            reason = f"`{known}` was changed by hand, which says what was carried out"
            raise CommandError(f"what was sent may have arrived or not: {reason}; look, and send it again")
        arguments[:2] = self.next()


async def send_batch(
    link: Link,
    function: str,
    arguments: list[Argument],
    producer: Producer,
    begun: Awaitable[Any] | None = None,
    confirm: Callable[[], Awaitable[None]] | None = None,
) -> tuple[list[Any], float]:
    """Calls a function whose first arguments are the producer's name and number; again, as long as no server answers.

    Args:
        link: the connection.
        function: its name.
        arguments: of the call.
        producer: numbers the calls.
        begun: the first call, where it was sent already.
        confirm: called when it is answered; where that finds no server, both are done again.

    Returns:
        The answer, and when it was asked for, by `steady_ms`.

    Raises:
        ConnectionLostError, ServerUnavailableError: no answer within `socket_timeout`, or the link was closed.
        CommandError: the server refused it; or nobody knows any more whether it was carried out.
    """
    deadline = asyncio.get_running_loop().time() + link.settings.socket_timeout
    pause, is_first = FIRST_PAUSE, True
    while True:
        asked = steady_ms()
        try:
            answer = await link.run(function, arguments, begun=begun)
            if confirm is not None:
                await confirm()
            return answer, asked
        except CommandError as error:
            if OVERTAKEN not in str(error):
                raise
            producer.overtaken(arguments, is_first)
            begun = None
        except (ConnectionLostError, ServerUnavailableError):
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or link.is_closed:
                raise
            is_first, begun = False, None
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            # guard: a batch that is sent again keeps its number
            await link.reconnect(left)
