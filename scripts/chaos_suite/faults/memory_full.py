"""The server's memory is full and nothing is evicted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar

from broker.errors import OverloadedError
from tests.helpers.eventually import eventually

from .. import clock
from ..figures import Figure
from ..site import Site
from .base import Act, Fault

TOLD = Figure("a publisher is told that the memory is full (OverloadedError)", 100, "ms")
MARGIN = 6 * 1024 * 1024  # bytes that are still free
FILLER = 64 * 1024  # bytes of one job
SLOWLY = 0.1  # seconds that each of them takes
KEYS = 8
AT_ONCE = 16  # publishes under way


@dataclass(frozen=True, slots=True)
class MemoryFull(Fault):
    """Fills the memory with a backlog, and waits until the workers have made room."""

    name: ClassVar[str] = "memory-full"
    act: ClassVar[Act] = "server"
    summary: ClassVar[str] = (
        "maxmemory with noeviction is reached by a backlog of large messages, and left again"
    )
    promise: ClassVar[str] = (
        "publishers get OverloadedError, commits go on and make room, publishing works again by itself"
    )
    figures: ClassVar[tuple[Figure, ...]] = (TOLD,)
    seconds: ClassVar[float] = 6.0

    async def strike(self, site: Site) -> None:
        info: dict[str, Any] = await site.client.info("memory")
        await site.client.config_set("maxmemory-policy", "noeviction")
        await site.client.config_set("maxmemory", int(info["used_memory"]) + MARGIN)
        try:
            full_at = await _fill(site)
            await _commits_go_on(site, full_at)
            await eventually(lambda: _is_accepted(site), 30, what="publishing works again by itself")
        finally:
            await site.client.config_set("maxmemory", 0)


async def _fill(site: Site) -> float:
    """Publishes until it is refused; returns when that was."""
    for _ in range(0, 10 * MARGIN // FILLER, AT_ONCE):
        refused = [one for one in await asyncio.gather(*(_one(site, n) for n in range(AT_ONCE))) if one]
        if refused:
            return min(refused)
    raise RuntimeError("the memory did not get full")


async def _one(site: Site, number: int) -> float:
    """Publishes one large message. Returns when it was refused, or 0."""
    began = clock.now()
    try:
        await site.publish(f"large.k{number % KEYS}", seconds=SLOWLY, filler=FILLER)
    except OverloadedError:
        site.measure(TOLD, (clock.now() - began) * 1000)
        return began
    return 0.0


async def _commits_go_on(site: Site, full_at: float) -> None:
    async def some() -> bool:
        return len(await site.space.commits(full_at)) >= KEYS

    await eventually(some, 10, what="commits while the memory is full")


async def _is_accepted(site: Site) -> bool:
    try:
        await site.publish("after.k", filler=FILLER)
    except OverloadedError:
        await asyncio.sleep(0.05)
        return False
    return True
