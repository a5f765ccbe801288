"""Timers, while workers are killed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from .. import clock
from ..figures import Figure
from ..site import Site
from .base import Act, Fault

LATENESS = Figure("lateness of timers while a worker is alive, 99th percentile", 250, "ms")
AHEAD = 1.5  # seconds before the first is due
KILL_EVERY = 8.0  # seconds


@dataclass(frozen=True, slots=True)
class Timers(Fault):
    """Timers at random times, and a kill -9 every 8 seconds.

    Attributes:
        count: timers.
        over: seconds.
    """

    count: int = 1000
    over: float = 60.0

    name: ClassVar[str] = "timers"
    act: ClassVar[Act] = "timers"
    summary: ClassVar[str] = (
        "1,000 timers over 60 seconds for two workers, one of which is killed every 8 seconds"
    )
    promise: ClassVar[str] = "each fires once"
    figures: ClassVar[tuple[Figure, ...]] = (LATENESS,)
    seconds: ClassVar[float] = 63.0

    async def strike(self, site: Site) -> None:
        first = clock.now() + AHEAD
        times = [first + site.chance.random() * self.over for _ in range(self.count)]
        jobs = await asyncio.gather(
            *(site.publish(f"timer.k{number}", topic="alarms", at=at) for number, at in enumerate(times))
        )
        while clock.now() < first + self.over:
            await asyncio.sleep(min(KILL_EVERY, max(0.1, first + self.over - clock.now())))
            if clock.now() < first + self.over:
                site.fleet.kill(await site.fleet.victim(site.chance))
        await site.committed(jobs)
        # Of a handler that was killed, the first start counts: the rest is redelivery.
        starts = {one.id: one.start for one in reversed(site.executions())}
        late = sorted(starts[job] - at for job, at in zip(jobs, times, strict=True))
        site.measure(LATENESS, late[int(0.99 * len(late))] * 1000)
