"""Handlers that leak memory until the process is killed."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import ClassVar

import psutil

from ..fleet import Fleet
from ..site import Site
from ..workload import LEAK
from .base import Act, Fault

GROWTH = 6 * LEAK  # bytes that a worker may grow until it is killed
LOOK_EVERY = 0.02  # seconds


@dataclass(frozen=True, slots=True)
class HandlerLeaks(Fault):
    """Does what the kernel does to a process that takes too much.

    Attributes:
        jobs: that leak.
    """

    jobs: int = 30

    name: ClassVar[str] = "handler-leaks"
    act: ClassVar[Act] = "processes"
    summary: ClassVar[str] = (
        "30 handlers keep 5 MB each; a worker that has grown by 30 MB is killed, as for want of memory"
    )
    promise: ClassVar[str] = "the others take over what it held"
    seconds: ClassVar[float] = 3.0

    async def strike(self, site: Site) -> None:
        killing = asyncio.create_task(_kill_the_fat(site.fleet))
        try:
            jobs = [
                await site.publish(f"leaking.k{number}", "leak", seconds=0.05) for number in range(self.jobs)
            ]
            await site.committed(jobs)
        finally:
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)


async def _kill_the_fat(fleet: Fleet) -> None:
    slim: dict[int, int] = {}
    while True:
        for member in fleet.working:
            with contextlib.suppress(psutil.NoSuchProcess):
                memory = member.process.memory
                if memory > slim.setdefault(member.process.pid, memory) + GROWTH:
                    fleet.kill(member)
        await asyncio.sleep(LOOK_EVERY)
