"""The server answers no client for a while."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from .. import clock
from ..figures import Figure
from ..site import Site
from .base import Act, Fault

RESUME = Figure("resume after a CLIENT PAUSE", 3.0)


@dataclass(frozen=True, slots=True)
class Pause(Fault):
    """CLIENT PAUSE."""

    act: ClassVar[Act] = "network"
    promise: ClassVar[str] = "no process exits; leases that ended meanwhile are fenced or renewed, never both"
    figures: ClassVar[tuple[Figure, ...]] = (RESUME,)

    def length(self, site: Site) -> float:
        """Seconds."""
        raise NotImplementedError

    async def strike(self, site: Site) -> None:
        seconds = self.length(site)
        await site.space.command("CLIENT", "PAUSE", int(seconds * 1000), "ALL")
        ends = clock.now() + seconds
        await asyncio.sleep(seconds)
        site.measure(RESUME, await site.resumed(ends))


@dataclass(frozen=True, slots=True)
class PauseLong(Pause):
    """Eight seconds."""

    name: ClassVar[str] = "pause-8s"
    summary: ClassVar[str] = "CLIENT PAUSE of 8 seconds"
    seconds: ClassVar[float] = 9.0

    def length(self, site: Site) -> float:
        return 8.0


@dataclass(frozen=True, slots=True)
class PauseTwoLeases(Pause):
    """Two leases."""

    name: ClassVar[str] = "pause-two-leases"
    summary: ClassVar[str] = "CLIENT PAUSE of two leases"
    seconds: ClassVar[float] = 3.0
    mixes: ClassVar[bool] = True

    def length(self, site: Site) -> float:
        return 2 * site.setting.lease
