"""From one worker to four and back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from .. import clock
from ..figures import Figure
from ..site import Site
from .base import Act, Fault

LONGEST = Figure("longest way from publish to commit while scaling 1 -> 4 -> 1", 0.5)
MANY = 4
STAY = 0.7  # seconds between two changes


@dataclass(frozen=True, slots=True)
class Scale(Fault):
    """Changes the number of workers under load."""

    name: ClassVar[str] = "scale"
    act: ClassVar[Act] = "processes"
    summary: ClassVar[str] = "under load the number of workers goes to 1, to 4 and to 1 again"
    promise: ClassVar[str] = "no key waits longer than half a second"
    figures: ClassVar[tuple[Figure, ...]] = (LONGEST,)
    seconds: ClassVar[float] = 6.0

    async def strike(self, site: Site) -> None:
        usual = len(site.fleet.members)
        await self._shrink(site, 1)
        began = clock.now()
        await asyncio.sleep(STAY)
        await site.fleet.grow(MANY - 1)
        await asyncio.sleep(STAY)
        await self._shrink(site, 1)
        await asyncio.sleep(STAY)
        ways = [one.time - one.published for one in await site.space.commits(began) if one.published >= began]
        site.measure(LONGEST, max(ways))
        await site.fleet.grow(usual - 1)

    async def _shrink(self, site: Site, number: int) -> None:
        for member in site.fleet.members[number:]:
            await site.fleet.retire(member)
