"""Every connection is closed by the server, again and again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from .. import clock
from ..figures import Figure
from ..site import Site
from .base import Act, Fault

RESUME = Figure("resume after CLIENT KILL of every connection", 1.0)
EVERY = 2.0  # seconds


@dataclass(frozen=True, slots=True)
class ClientKill(Fault):
    """CLIENT KILL of everybody.

    Attributes:
        times: how often.
    """

    times: int = 3

    name: ClassVar[str] = "client-kill"
    act: ClassVar[Act] = "network"
    summary: ClassVar[str] = "CLIENT KILL of every connection, every 2 seconds"
    promise: ClassVar[str] = "everybody connects again by itself"
    figures: ClassVar[tuple[Figure, ...]] = (RESUME,)
    seconds: ClassVar[float] = 6.0
    mixes: ClassVar[bool] = True

    async def strike(self, site: Site) -> None:
        for _ in range(self.times):
            for kind in ("normal", "pubsub"):
                await site.space.command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
            killed_at = clock.now()
            took = await site.resumed(killed_at)
            site.measure(RESUME, took)
            await asyncio.sleep(max(0.0, EVERY - took))
