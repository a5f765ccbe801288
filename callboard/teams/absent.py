"""Looks after a run that is silent: whom nobody runs is named, and a run that the server has lost is not waited for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from callboard.broker.errors import BrokerError

from .orders import Accepted

logger = logging.getLogger("callboard.teams")

PATIENCE: Final = 10.0  # seconds without an event of a run after which somebody may be missing
NOT_KNOWN: Final = (BrokerError, TimeoutError, LookupError)
"""What `describe` raises where the server, or the manager, can't be asked now: it is asked again."""


class Absent:
    """Looks, for the reader of a run, whether it is there, and those who are to speak; a warning names who is not, once.

    Args:
        team: Name of the team.
        describe: Asks the manager how the run stands.

    Attributes:
        is_over: The manager knew no such run any more when it was last asked, and nothing was read since.
    """

    def __init__(self, team: str, describe: Callable[[], Awaitable[Accepted]]) -> None:
        self.is_over = False
        self._team = team
        self._describe = describe
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._missing: list[str] = []
        self._looking = self._loop.create_task(self._look(), name="callboard-absent-members")

    def heard(self) -> None:
        """There was an event."""
        self._heard_at = self._loop.time()
        self.is_over = False

    async def close(self) -> None:
        """Looks no more."""
        self._looking.cancel()
        await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        while True:
            wait = self._heard_at + PATIENCE - self._loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            self._heard_at = self._loop.time()
            try:
                described = await self._describe()
            except NOT_KNOWN as error:
                logger.debug("it is not known who is missing in %s: %s", self._team, error)
                continue
            self._say(described.missing)
            self.is_over = described.state == "idle"

    def _say(self, missing: list[str]) -> None:
        if missing and missing != self._missing:
            types = ", ".join(f"{self._team}.{name}" for name in missing)
            logger.warning("the team %s waits: no process runs %s. Start one.", self._team, types)
        self._missing = missing
