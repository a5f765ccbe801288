"""Faults that destroy data: what was there is gone, and everything that comes later is as before."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from .. import clock
from ..figures import Figure
from ..site import Site
from .base import Act, Fault

RESUME = Figure("messages published after a loss of data are handled", 3.0)
QUIET = 1.0  # seconds under load afterwards


@dataclass(frozen=True, slots=True)
class DataLoss(Fault):
    """Destroys data under load."""

    act: ClassVar[Act] = "loss"
    promise: ClassVar[str] = (
        "groups and subscriptions are made again; what is published from then on is handled once, in order"
    )
    figures: ClassVar[tuple[Figure, ...]] = (RESUME,)

    async def strike(self, site: Site) -> None:
        await self.destroy(site)
        site.lost_at = clock.now()
        site.measure(RESUME, await site.resumed(site.lost_at))
        await asyncio.sleep(QUIET)

    @abstractmethod
    async def destroy(self, site: Site) -> None:
        """Destroys the data, which is gone when this returns."""


@dataclass(frozen=True, slots=True)
class RestartEmpty(DataLoss):
    """The server comes back without its file."""

    name: ClassVar[str] = "restart-empty"
    summary: ClassVar[str] = "kill -9 of the server; it comes back without its file"

    async def destroy(self, site: Site) -> None:
        site.server.kill()
        site.server.forget_data()
        await asyncio.sleep(0.3)
        site.server.start()


@dataclass(frozen=True, slots=True)
class FlushAll(DataLoss):
    """An operator runs FLUSHALL."""

    name: ClassVar[str] = "flushall"
    summary: ClassVar[str] = "FLUSHALL while everybody is at work"

    async def destroy(self, site: Site) -> None:
        await site.space.command("FLUSHALL")


@dataclass(frozen=True, slots=True)
class DeleteStream(DataLoss):
    """An operator deletes a topic."""

    name: ClassVar[str] = "delete-stream"
    summary: ClassVar[str] = "DEL of the stream that the load goes through, with its group"

    async def destroy(self, site: Site) -> None:
        await site.space.command("DEL", site.space.prefix + "topic:jobs")
