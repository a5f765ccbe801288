"""Kill -9 of a worker."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar, Self

from tests.helpers.eventually import eventually

from .. import clock
from ..executions import Execution
from ..figures import Figure
from ..setting import LEASE
from ..site import Site
from .base import Act, Fault

REDELIVERY = Figure(f"redelivery after kill -9 of a worker (lease {LEASE:g} s)", LEASE + 1.0)


@dataclass(frozen=True, slots=True)
class KillWorker(Fault):
    """Kills workers one after the other.

    Attributes:
        times: how many.
    """

    times: int = 2

    name: ClassVar[str] = "kill-worker"
    act: ClassVar[Act] = "processes"
    summary: ClassVar[str] = (
        "kill -9 of a worker that runs handlers, nobody tells the server; another is started"
    )
    promise: ClassVar[str] = "what it ran starts elsewhere within the lease and a second"
    figures: ClassVar[tuple[Figure, ...]] = (REDELIVERY,)
    seconds: ClassVar[float] = 4.0
    mixes: ClassVar[bool] = True

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls(times=chance.randint(1, 3))

    async def strike(self, site: Site) -> None:
        for _ in range(self.times):
            for number in range(4):
                await site.publish(f"doomed.k{number}", seconds=0.3)
            victim = await site.fleet.victim(site.chance)
            site.fleet.kill(victim)
            await _redelivered(site, victim.process.pid, clock.now())


async def _redelivered(site: Site, pid: int, killed_at: float) -> None:
    interrupted = {
        one.id for one in site.executions() if one.pid == pid and one.end is None and one.start < killed_at
    }

    def next_starts() -> list[float] | None:
        starts = [_next_start(site.executions(), job, killed_at) for job in interrupted]
        return None if None in starts else [start for start in starts if start is not None] or [killed_at]

    found = await eventually(next_starts, 30, what=f"redelivery of {interrupted}")
    if interrupted:
        site.measure(REDELIVERY, max(found or ()) - killed_at)


def _next_start(executions: list[Execution], job: str, after: float) -> float | None:
    return next((one.start for one in executions if one.id == job and one.start > after), None)
