"""Waiting until a namespace has nothing left to do, whoever does it."""

from __future__ import annotations

import asyncio
from typing import Final

from callboard.broker.redis.client.transport import RedisTransport

from .local_worker import LocalWorker

FIRST_LOOK: Final = 0.001  # seconds between two looks; twice as long each time
LONGEST_LOOK: Final = 0.1


async def until_idle(
    transport: RedisTransport, worker: LocalWorker | None, task: asyncio.Task[None] | None
) -> None:
    """Waits until nothing is left to do in the namespace, seen twice without a message in between.

    Args:
        transport: the connection.
        worker: the worker of this process; None: there is none.
        task: runs it. When it was cut off, this raises why.
    """
    if worker is None or task is None:
        await _elsewhere(transport)
        return
    await worker.until_idle(task, lambda: False)
    if task.done():
        await task


async def _elsewhere(transport: RedisTransport) -> None:
    """As above, where other processes do the work.

    A commit takes its message away and adds what follows in one step, so there is no moment at which work is neither
    queued nor held; the second look is for what was published while the first one went from stream to stream.
    """
    pause, last = FIRST_LOOK, None
    while True:
        look = await transport.idle()
        if any(look[:3]):
            last = None
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_LOOK)
        elif look == last and not transport.in_flight:
            return
        else:
            last = look
