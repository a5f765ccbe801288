"""Server-sent events of a run: a reader who comes back with the last number goes on there, at whichever process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from callboard.runs.events import Event

from .problems import RETRY, SAFE, Problem

HEARTBEAT: Final = 15.0  # seconds between signs of life
PATIENCE: Final = 30.0  # seconds until a reader who takes nothing is left
ALIVE: Final = b": alive\n\n"

Portions = AsyncGenerator[Sequence[Any], None]
"""What there is to send, and nothing where nothing came for a while."""


@dataclass
class Streams:
    """The streams of one process.

    Attributes:
        most: How many there may be.
        closing: Set when the process ends: each stream ends, and its client goes on at another process.
        count: How many there are.
    """

    most: int
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    count: int = 0

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Count one while it is open."""
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    def check_room(self) -> None:
        """Refuse one too many.

        Raises:
            Problem: There are as many as there may be, or the process ends.
        """
        if self.closing.is_set() or self.count >= self.most:
            raise Problem(
                503, "this process reads as many runs as it may; try again, with the last number", RETRY
            )


def written(event: Event) -> bytes:
    """An event as it is sent. Its data is JSON on one line, so no text in it can end it."""
    return f"id: {event.number}\nevent: {event.type}\ndata: {event.model_dump_json()}\n\n".encode()


class EventStream(Response):
    """The events of a run, as they come.

    Args:
        portions: The events.
        streams: Those of this process.
        write: How one is sent.
        headers: More of the answer.
        beats: Whether there are empty portions where nothing came for a while; else they are made here.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        portions: Portions,
        streams: Streams,
        write: Callable[[Any], bytes] = written,
        headers: Mapping[str, str] | None = None,
        *,
        beats: bool = False,
    ) -> None:
        super().__init__(headers={**SAFE, "x-accel-buffering": "no", **(headers or {})})
        del self.headers["content-length"]
        self._portions = portions
        self._streams = streams
        self._write = write
        self._beats = beats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them, until the run or the client has ended."""
        with self._streams.one():
            _, _, sent = await first_of(gone(receive), self._streams.closing.wait(), self._send_all(send))
            if isinstance(sent, Exception) and not isinstance(sent, OSError | ClientDisconnect):
                raise sent
        if self._streams.closing.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _sent(send, ALIVE)
        async with contextlib.aclosing(self._portions) as portions:
            async for portion in portions if self._beats else _with_heartbeats(portions):
                await _sent(send, b"".join(map(self._write, portion)) if portion else ALIVE)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _sent(send: Send, body: bytes) -> None:
    # One who takes nothing holds a connection of the server: it is left, and may go on by its number.
    async with asyncio.timeout(PATIENCE):
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def first_of(*waits: Coroutine[Any, Any, object]) -> list[object]:
    """Wait until the first of them has ended, and end the others.

    Returns:
        What each has come to: a result, what it raised, or a CancelledError where another one was first.
    """
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    return ended


async def gone(receive: Receive) -> None:
    """Until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _with_heartbeats(portions: Portions) -> Portions:
    """The portions that have events, and an empty one where none came for a while."""
    loop = asyncio.get_running_loop()
    coming, last = asyncio.ensure_future(anext(portions, None)), loop.time()
    try:
        while True:
            done, _ = await asyncio.wait([coming], timeout=HEARTBEAT)
            portion = coming.result() if done else ()
            if portion is None:
                return
            if done:
                coming = asyncio.ensure_future(anext(portions, None))
            if portion or loop.time() - last >= HEARTBEAT:
                yield portion
                last = loop.time()
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
