"""Following a stream from a remembered id, so that a reconnect misses nothing: the replies to a process, and `control`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from callboard.broker.errors import CommandError, ConnectionLostError, ServerUnavailableError

from .commands import Beginning
from .connection import Link

logger = logging.getLogger("callboard.broker")

BLOCK = 5000  # ms that one read waits
READ = 500  # entries in one read
PAUSE = 1.0  # seconds before reading again what could not be read
TRIM_AFTER = 1000  # entries read since the stream was last trimmed
START = b"0-0"


class StreamFollower:
    """Hands the values of every entry that arrives to a function, in order.

    Args:
        link: a connection of its own.
        suffix: the stream.
        on_entry: called with the values of an entry, without the names of its fields.
        is_own: the stream has no other reader: it is read from its start, trimmed, and removed by `close`.
    """

    def __init__(
        self, link: Link, suffix: str, on_entry: Callable[[Sequence[bytes]], None], *, is_own: bool
    ) -> None:
        self._link = link
        self._key = link.keys.of(suffix)
        self._reading = Beginning.of("XREAD", "COUNT", READ, "BLOCK", BLOCK, "STREAMS", self._key)
        self._on_entry = on_entry
        self._is_own = is_own
        self._last = START
        self._since_trim = 0
        self._in_doubt = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to read. Safe to repeat."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="callboard-follower")

    async def _run(self) -> None:
        while not self._link.is_closed:
            try:
                if self._in_doubt:
                    await self._find_place()
                self._take(await self._read())
                if self._is_own and self._since_trim >= TRIM_AFTER:
                    await self._trim()
            except (ConnectionLostError, ServerUnavailableError) as error:
                self._in_doubt = True
                logger.debug("%s can't be read for now: %s", self._key, error)
                await self._reconnect()
            except (
                Exception
            ):  # if this task ended, a requester would wait in vain for a reply that is in the stream
                logger.exception("%s can't be read, trying again", self._key)
                await asyncio.sleep(PAUSE)

    async def _reconnect(self) -> None:
        await asyncio.sleep(0.02)
        with contextlib.suppress(ServerUnavailableError):  # it waits for ever, unless the link was closed
            await self._link.reconnect(math.inf)

    async def skip_to_end(self) -> None:
        """Leaves out the entries that are there already.

        The id of the last one is remembered. A read from `$` would do the same only once it is under way: an entry added
        before that, or while the connection is made again, would be missed.

        Raises:
            ServerUnavailableError: the server can't be reached.
        """
        command = ("XREVRANGE", self._key, "+", "-", "COUNT", 1)
        found: list[list[bytes]] = await self._link.despite_losses(lambda: self._link.command(*command))
        self._last = found[0][0] if found else START

    async def _find_place(self) -> None:
        """Reads from the start when the entry that was read last is not there any more.

        A server that lost a tail, or a stream that expired, goes on with ids of the server's clock. Where that is behind,
        they are below the remembered one, and would never be read. To read an entry twice does no harm.
        """
        command = ("XREAD", "COUNT", 1, "STREAMS", self._key, just_below(self._last))
        found = await self._link.command(*command) if self._last != START else None
        # guard: a remembered place that is gone is not read behind
        if not found or found[0][1][0][0] != self._last:
            self._last = START
        self._in_doubt = False

    def _read(self) -> Coroutine[Any, Any, Any]:
        wait = self._link.settings.socket_timeout
        return self._link.command(self._last, timeout=BLOCK / 1000 + wait, beginning=self._reading)

    def _take(self, answer: Any) -> None:
        self._in_doubt = not answer
        for _, entries in answer or ():
            for entry_id, fields in entries:
                self._last = entry_id
                self._since_trim += 1
                self._on_entry(fields[1::2])

    async def _trim(self) -> None:
        self._since_trim = 0
        await self._link.command("XTRIM", self._key, "MINID", "~", self._last)

    async def close(self) -> None:
        """Stops reading; removes a stream that is its own."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            # The cancelled XREAD still blocks this connection in the server, for up to BLOCK: a DEL behind it would wait.
            self._link.break_off("closed")
            if self._is_own:
                # Without a server now, the stream expires by itself a minute after the last reply.
                with contextlib.suppress(ServerUnavailableError, CommandError):
                    await self._link.command("DEL", self._key, timeout=1.0)
        self._link.close()


def just_below(entry_id: bytes) -> bytes:
    """The last id before another one."""
    ms, _, number = entry_id.partition(b"-")
    if int(number):
        return b"%d-%d" % (int(ms), int(number) - 1)
    return b"%d-%d" % (int(ms) - 1, 2**64 - 1) if int(ms) else START
