"""Throw-away namespaces: each is deleted by the process that made it, or, when that died, by the next one that makes one.

`callboard:throwaway` is the only Redis key outside of a namespace: a zset, namespace -> until when it is certainly in use,
server ms. A process that lives says so every hour, for a day.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from typing import Final

from callboard.broker.errors import BrokerError, CommandError
from callboard.broker.redis.keys import Keys

from .transport import RedisTransport

logger = logging.getLogger("callboard.broker")

REGISTER: Final = "callboard:throwaway"
NAME: Final = re.compile(r"run-\d+-[0-9a-f]+\Z")
KEPT: Final = 86_400_000  # ms without a word of its process
EVERY: Final = 3_600.0  # seconds between two words
AT_ONCE: Final = 5  # namespaces that one process removes: its start is not to take long


class ThrowAway:
    """The throw-away namespace of a transport, from `begin` to `end`."""

    def __init__(self, transport: RedisTransport) -> None:
        self._transport = transport
        self._telling: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Removes what dead processes left, and says that this namespace is in use. Comes before the first key of it."""
        try:
            await self._remove_left()
            await self._tell()
        except CommandError as error:
            # A user who may only use its own namespaces: what it leaves behind is for its administrator to delete.
            logger.debug("throw-away namespaces can't be looked after: %s", error)
            return
        self._telling = asyncio.create_task(self._tell_always(), name="callboard-throwaway")

    async def stop(self) -> None:
        """Says nothing any more. What there is of the namespace is for a later process to remove."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait({self._telling})

    async def end(self) -> None:
        """Deletes the namespace, then its entry in the register: a kill between leaves nothing that nobody finds."""
        await self.stop()
        await self._transport.delete_namespace()
        if self._telling is None:  # there is no entry
            return
        with contextlib.suppress(BrokerError):  # the server is gone: a later process finds the entry
            await self._transport.admin.command("ZREM", REGISTER, self._transport.keys.namespace)

    async def _now(self) -> int:
        seconds, micros = await self._transport.admin.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def _tell(self) -> None:
        until = await self._now() + KEPT
        await self._transport.admin.command("ZADD", REGISTER, until, self._transport.keys.namespace)

    async def _tell_always(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self._tell()
            except BrokerError as error:
                logger.debug("it could not be said that the namespace is in use: %s", error)

    async def _remove_left(self) -> None:
        command = self._transport.admin.command
        left = await command("ZRANGEBYSCORE", REGISTER, "-inf", await self._now(), "LIMIT", 0, AT_ONCE)
        for raw in left:
            name = raw.decode(errors="replace")
            # Of several processes one removes it; what a person added to the register is left alone.
            # guard: only a throw-away namespace is removed
            if NAME.match(name):
                await self._transport.delete_keys(Keys(name).prefix)
            await command("ZREM", REGISTER, raw)
