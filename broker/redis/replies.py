"""Replies to the requests of this process: one stream, read from a remembered id, so that a reconnect misses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import CommandError, ConnectionLostError, ServerUnavailableError
from . import keys
from .link import Link

logger = logging.getLogger("callboard.broker")

BLOCK = 5000  # ms that one read waits
READ = 500  # replies in one read
PAUSE = 1.0  # seconds before reading again what could not be read
TRIM_AFTER = 1000  # replies read since the stream was last trimmed


class ReplyReader:
    """Hands every reply that arrives to a function, in order."""

    def __init__(self, link: Link, process: str, on_reply: Callable[[Sequence[bytes]], None]) -> None:
        self._link = link
        self._key = link.keys.of(keys.reply(process))
        self._on_reply = on_reply
        self._last: bytes = b"0-0"
        self._since_trim = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to read; needed before the first request is sent. Safe to repeat."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="callboard-replies")

    async def _run(self) -> None:
        while not self._link.is_closed:
            try:
                self._take(await self._read())
                await self._trim()
            except (ConnectionLostError, ServerUnavailableError) as error:
                logger.debug("replies can't be read for now: %s", error)
                await self._reconnect()
            except Exception:  # every later request would wait in vain if this task ended
                logger.exception("replies can't be read, trying again")
                await asyncio.sleep(PAUSE)

    async def _reconnect(self) -> None:
        await asyncio.sleep(0.02)
        with contextlib.suppress(ServerUnavailableError):  # it waits for ever, unless the link was closed
            await self._link.reconnect(math.inf)

    async def _read(self) -> Any:
        wait = self._link.settings.socket_timeout
        return await self._link.command(
            "XREAD",
            "COUNT",
            READ,
            "BLOCK",
            BLOCK,
            "STREAMS",
            self._key,
            self._last,
            timeout=BLOCK / 1000 + wait,
        )

    def _take(self, answer: Any) -> None:
        for _, entries in answer or ():
            for entry_id, fields in entries:
                self._last = entry_id
                self._since_trim += 1
                self._on_reply(fields[1::2])

    async def _trim(self) -> None:
        if self._since_trim >= TRIM_AFTER:
            self._since_trim = 0
            await self._link.command("XTRIM", self._key, "MINID", "~", self._last)

    async def close(self) -> None:
        """Stops reading and removes the stream."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._link.break_off("closed")
            # Without a server now, the stream expires by itself a minute after the last reply.
            with contextlib.suppress(ServerUnavailableError, CommandError):
                await self._link.command("DEL", self._key, timeout=1.0)
        self._link.close()
