"""Says that a run waits for a member whom no process runs: it goes on as soon as one does, and not before."""

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
    """Looks, for the reader of a run, whether those who are to speak are there; a warning names who is not, once.

    Args:
        team: Name of the team.
        describe: Asks the manager how the run stands.
    """

    def __init__(self, team: str, describe: Callable[[], Awaitable[Accepted]]) -> None:
        self._team = team
        self._describe = describe
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._missing: list[str] = []
        self._looking = self._loop.create_task(self._look(), name="callboard-absent-members")

    def heard(self) -> None:
        """There was an event."""
        self._heard_at = self._loop.time()

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
            self.heard()
            try:
                missing = (await self._describe()).missing
            except NOT_KNOWN as error:
                logger.debug("it is not known who is missing in %s: %s", self._team, error)
                continue
            if missing and missing != self._missing:
                types = ", ".join(f"{self._team}.{name}" for name in missing)
                logger.warning("the team %s waits: no process runs %s. Start one.", self._team, types)
            self._missing = missing
