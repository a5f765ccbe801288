"""Writing to the streams of runs: what is handed in while one call is under way goes out together with the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from callboard.broker.errors import CommandError, ConnectionLostError, EncodeError, FencedError
from callboard.broker.runs import RunWrite

from .batches import Producer, send_batch
from .commits import write_values
from .connection import Link
from .endpoint import Argument

LARGEST_BATCH: Final = 1000  # events in one call
LARGEST_BYTES: Final = 4 * 1024 * 1024  # of bodies in one call
NO_FENCE: Final = ("", "")

Item = tuple[RunWrite, asyncio.Future[int]]


class RunWriter:
    """Sends writes in order, in batches, each batch once even when its answer was lost."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._producer = Producer()
        self._queue: deque[Item] = deque()
        self._task: asyncio.Task[None] | None = None

    def write(self, write: RunWrite) -> asyncio.Future[int]:
        """Hands in one write.

        Returns:
            A future: the number of its first event, 0 when it has none. It fails with FencedError (another worker has the
            message of the handler that writes), CommandError (nothing can be added to the stream), OverloadedError (the
            server's memory is full), EncodeError (a value can't be written) or ServerUnavailableError (no server within
            `socket_timeout`; it may or may not have been written).
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queue.append((write, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="callboard-run-writer")
        return future

    async def _run(self) -> None:
        while self._queue:
            await self._send(self._take())

    def _take(self) -> list[Item]:
        batch: list[Item] = []
        events, size = 0, 0
        while self._queue:
            write = self._queue[0][0]
            events, size = events + len(write.events), size + write.size
            if batch and (events > LARGEST_BATCH or size > LARGEST_BYTES):
                break
            batch.append(self._queue.popleft())
        return batch

    async def _send(self, batch: Sequence[Item]) -> None:
        arguments: list[Argument] = [*self._producer.next(), len(batch)]
        for write, _ in batch:
            arguments += write.fence or NO_FENCE
            arguments += write_values(write)
        try:
            answer, _ = await send_batch(self._link, "write", arguments, self._producer)
            for (write, future), word in zip(batch, answer, strict=True):
                _end(write, future, word)
        except asyncio.CancelledError:
            _fail(batch, ConnectionLostError(self._link.endpoint.shown, "the runtime was closed"))
            raise
        except EncodeError as error:  # nothing of the batch has left
            if len(batch) == 1:
                _fail(batch, error)
                return
            for item in batch:
                await self._send([item])
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits for the batch gets it
            _fail(batch, error)

    async def close(self) -> None:
        """Sends what was handed in, and ends the connection."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})
        self._link.close()


def _end(write: RunWrite, future: asyncio.Future[int], word: bytes) -> None:
    if future.done():
        return
    if word == b"fenced" and write.fence is not None:
        _fail([(write, future)], FencedError(write.fence.worker))
    elif word == b"unwritable":
        reason = "its key holds something else, or an entry with an id that no event's can follow"
        _fail([(write, future)], CommandError(f"nothing can be added to run:{write.run}: {reason}"))
    else:
        future.set_result(0 if word == b"none" else int(word.partition(b"-")[2]))


def _fail(batch: Sequence[Item], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
            future.exception()  # whoever waits gets it; nobody has to wait
