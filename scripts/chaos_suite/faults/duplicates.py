"""The same message again and again, from several processes and over connections that break."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass
from typing import ClassVar, Self

from callboard.broker import BrokerSettings
from callboard.broker.errors import ServerUnavailableError
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.eventually import eventually

from .. import clock
from ..site import NAMESPACE, UNLIMITED, Site
from ..workload import Job, app
from .base import Act, Fault


@dataclass(frozen=True, slots=True)
class Duplicates(Fault):
    """Publishes jobs several times with the same message id, over two runtimes, while connections are killed.

    Attributes:
        jobs: how many.
        times: how often each is published.
    """

    jobs: int = 50
    times: int = 4

    name: ClassVar[str] = "duplicates"
    act: ClassVar[Act] = "processes"
    summary: ClassVar[str] = (
        "50 messages with a message_id are published 2 to 5 times, by two runtimes at once, connections breaking meanwhile"
    )
    promise: ClassVar[str] = "each is handled once"
    seconds: ClassVar[float] = 1.5
    mixes: ClassVar[bool] = True

    @classmethod
    def draw(cls, chance: random.Random) -> Self:
        return cls(times=chance.randint(2, 5))

    async def strike(self, site: Site) -> None:
        settings = BrokerSettings(namespace=NAMESPACE, max_unclaimed=int(UNLIMITED))
        unique = site.chance.getrandbits(32)
        jobs = [Job(id=f"twice.k{n % 5}/{unique:x}-{n}", published=clock.now()) for n in range(self.jobs)]
        # They are published at the same time, so there is no order among them.
        site.unordered.update(job.id for job in jobs)
        other = RedisAgentRuntime.from_app(
            app, site.server.url, namespace=NAMESPACE, settings=settings, types=()
        )
        try:
            await _opened(other)
            copies = [
                site.publish_job((site.runtime, other)[copy % 2], job.id.partition("/")[0], job)
                for copy in range(self.times)
                for job in jobs
            ]
            publishing = asyncio.gather(*copies)
            await asyncio.sleep(0)
            await site.space.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await publishing
        finally:
            await other.close()
        await site.committed(job.id for job in jobs)


async def _opened(runtime: RedisAgentRuntime) -> None:
    """Another fault may have taken the server away for now."""

    async def opens() -> bool:
        with contextlib.suppress(ServerUnavailableError):
            await runtime.open()
            return True
        return False

    await eventually(opens, 20, what="a server to connect to")
