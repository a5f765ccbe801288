"""Kill -9 of a publisher."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import ClassVar, Self

from ..site import Site
from .base import Act, Fault


@dataclass(frozen=True, slots=True)
class KillPublisher(Fault):
    """Kills publishers one after the other.

    Attributes:
        times: how many.
    """

    times: int = 2

    name: ClassVar[str] = "kill-publisher"
    act: ClassVar[Act] = "processes"
    summary: ClassVar[str] = (
        "kill -9 of a publisher; its successor publishes again, with the same id, what was not answered"
    )
    promise: ClassVar[str] = "what was acknowledged is there once, what was published twice as well"
    seconds: ClassVar[float] = 2.0
    mixes: ClassVar[bool] = True

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls(times=chance.randint(1, 3))

    async def strike(self, site: Site) -> None:
        for _ in range(self.times):
            await site.load.kill_one(site.chance)
            await asyncio.sleep(0.3)
