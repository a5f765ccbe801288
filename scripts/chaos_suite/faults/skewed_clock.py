"""Workers and publishers whose clocks are an hour off."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from .. import clock
from ..figures import Figure
from ..site import Site
from ..skewing import skewed
from .base import Act, Fault

LATENESS = Figure("timers with clocks an hour off: too late or too early by", 250, "ms")
HOUR = 3600.0
TIMERS = 20


@dataclass(frozen=True, slots=True)
class SkewedClock(Fault):
    """Replaces the workers by two whose clocks are an hour fast and an hour slow, and adds a publisher."""

    name: ClassVar[str] = "skewed-clock"
    act: ClassVar[Act] = "server"
    summary: ClassVar[str] = (
        "workers whose clocks are an hour fast and an hour slow, and a publisher an hour fast"
    )
    promise: ClassVar[str] = (
        "leases and timers go by the server's clock: no lease ends early, no timer fires early"
    )
    figures: ClassVar[tuple[Figure, ...]] = (LATENESS,)
    seconds: ClassVar[float] = 4.0

    async def strike(self, site: Site) -> None:
        usual = list(site.fleet.members)
        grown = await asyncio.gather(*(site.fleet.grow(1, skewed(by)) for by in (HOUR, -HOUR)))
        wrong = [member for members in grown for member in members]
        await site.load.start("skewed", skewed(HOUR))
        await asyncio.gather(*(site.fleet.retire(member) for member in usual))
        await self._timers(site)
        await site.fleet.grow(len(usual))
        await asyncio.gather(*(site.fleet.retire(member) for member in wrong))

    async def _timers(self, site: Site) -> None:
        due: dict[str, float] = {}
        for number in range(TIMERS):
            at = clock.now() + 0.3 + number * 0.03
            due[await site.publish(f"skewed.k{number}", at=at)] = at
        await site.committed(due)
        starts = {one.id: one.start for one in reversed(site.executions())}
        site.measure(LATENESS, max(abs(starts[job] - at) * 1000 for job, at in due.items()))
