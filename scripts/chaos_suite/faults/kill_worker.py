"""Kill -9 of a worker."""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass
from typing import ClassVar, Self

from tests.helpers.eventually import eventually

from .. import clock
from ..figures import Figure
from ..fleet import Member
from ..setting import LEASE
from ..site import Site
from .base import Act, Fault

REDELIVERY = Figure(f"redelivery after kill -9 of a worker (lease {LEASE:g} s)", LEASE + 1.0)

LONG, KEYS = 0.6, 6  # seconds of the handlers that are caught, and for how many agents
MORE = 3  # kills more, when none has caught a handler


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
        "kill -9 of a worker that runs handlers, the server is not told; another is started"
    )
    promise: ClassVar[str] = "what it ran starts elsewhere within the lease and a second"
    figures: ClassVar[tuple[Figure, ...]] = (REDELIVERY,)
    seconds: ClassVar[float] = 4.0
    mixes: ClassVar[bool] = True

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls(times=chance.randint(1, 3))

    async def strike(self, site: Site) -> None:
        caught = False
        for kill in range(self.times + MORE):
            if caught and kill >= self.times:
                return
            jobs = [await site.publish(f"doomed.k{number}", seconds=LONG) for number in range(KEYS)]
            victim = await _at_work(site, jobs)
            site.fleet.kill(victim)
            caught = await _redelivered(site, victim.process.pid, clock.now()) or caught


async def _at_work(site: Site, jobs: list[str]) -> Member:
    """A worker that is running one of these jobs; any other, if none could be caught at it."""

    def running() -> list[Member]:
        pids = {one.pid for one in site.executions() if one.id in jobs and one.end is None}
        return [member for member in site.fleet.working if member.process.pid in pids]

    with contextlib.suppress(AssertionError):
        return site.chance.choice(await eventually(running, 5))
    return await site.fleet.victim(site.chance)


async def _redelivered(site: Site, pid: int, killed_at: float) -> bool:
    """Waits for the next start of everything that it ran. If it is a zombie, another worker may have it already.

    Returns:
        Whether it ran anything.
    """
    running = {
        one.id for one in site.executions() if one.pid == pid and one.end is None and one.start < killed_at
    }
    interrupted = running - {commit.id for commit in await site.space.commits()}

    def last_start() -> float | None:
        starts = {one.id: one.start for one in site.executions() if one.start > killed_at}
        return max(starts[job] for job in interrupted) if interrupted <= set(starts) else None

    if interrupted:
        last = await eventually(last_start, 30, what=f"redelivery of {interrupted}")
        site.measure(REDELIVERY, (last or 0.0) - killed_at)
    return bool(interrupted)
