"""SIGSTOP: a worker that stands still and does not know."""

from __future__ import annotations

import asyncio
import random
import signal
from dataclasses import dataclass
from typing import ClassVar, Self

from tests.helpers.eventually import eventually

from .. import clock
from ..site import Site
from .base import Act, Fault


@dataclass(frozen=True, slots=True)
class StopWorker(Fault):
    """Stops one worker in the middle of its handlers, then lets it go on.

    Attributes:
        leases: how long, in leases.
    """

    leases: float = 2.0

    name: ClassVar[str] = "stop-worker"
    act: ClassVar[Act] = "processes"
    summary: ClassVar[str] = "SIGSTOP of a worker for 0.3 to 3 leases, then SIGCONT"
    promise: ClassVar[str] = "after more than a lease its commits are refused; it joins again and goes on"
    seconds: ClassVar[float] = 4.0
    mixes: ClassVar[bool] = True

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls(leases=round(chance.uniform(0.3, 3.0), 2))

    async def strike(self, site: Site) -> None:
        for number in range(4):
            await site.publish(f"stopped.k{number}", seconds=0.3)
        victim = await site.fleet.victim(site.chance)
        victim.process.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(self.leases * site.setting.lease)
        finally:
            if victim.process.is_alive:
                victim.process.signal(signal.SIGCONT)
        again = clock.now()

        def works_again() -> bool:
            started = any(one.pid == victim.process.pid and one.start > again for one in site.executions())
            return started or not victim.process.is_alive

        await eventually(works_again, 20, what=f"{victim.name} works again")
