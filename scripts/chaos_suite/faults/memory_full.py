"""The server's memory is full and nothing is evicted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar

from callboard.broker.errors import OverloadedError
from tests.helpers.eventually import eventually

from .. import clock
from ..figures import Figure
from ..site import Site
from .base import Act, Fault

TOLD = Figure("a publisher is told that the memory is full (OverloadedError)", 100, "ms")
MARGIN = 6 * 1024 * 1024  # bytes that are still free
EXCESS = 1024 * 1024  # bytes; so that it stays full until a part of the backlog is handled
FILLER = 64 * 1024  # bytes of one job
SLOWLY = 0.1  # seconds that each of them takes
KEYS = 8
AT_ONCE = 16  # publishes under way
TRIES = 20  # single messages while the memory is full


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
        await site.client.config_set("maxmemory-policy", "noeviction")
        await _limit_memory(site, MARGIN)
        try:
            full_at = await _fill(site)
            await _limit_memory(site, -EXCESS)
            for number in range(TRIES):
                await _tell_how_long(site, number)
            await _commits_go_on(site, full_at)
            await eventually(
                lambda: _is_accepted(site, "after.k"), 30, what="publishing works again by itself"
            )
        finally:
            await site.client.config_set("maxmemory", 0)


async def _limit_memory(site: Site, free: int) -> None:
    """So that so many bytes are free; below 0: so many more are used than may be."""
    info: dict[str, Any] = await site.client.info("memory")
    await site.client.config_set("maxmemory", int(info["used_memory"]) + free)


async def _fill(site: Site) -> float:
    """Publishes until something is refused; returns when that was."""
    for _ in range(0, 10 * MARGIN // FILLER, AT_ONCE):
        began = clock.now()
        accepted = await asyncio.gather(*(_is_accepted(site, f"large.k{n % KEYS}") for n in range(AT_ONCE)))
        if not all(accepted):
            return began
    raise RuntimeError("the memory did not get full")


async def _tell_how_long(site: Site, number: int) -> None:
    """Publishes one message; what counts is how long it takes to be refused."""
    began = clock.now()
    if not await _is_accepted(site, f"large.k{number % KEYS}"):
        site.measure(TOLD, (clock.now() - began) * 1000)


async def _is_accepted(site: Site, key: str) -> bool:
    try:
        await site.publish(key, seconds=SLOWLY, filler=FILLER)
    except OverloadedError:
        return False
    return True


async def _commits_go_on(site: Site, full_at: float) -> None:
    async def some() -> bool:
        return len(await site.space.commits(full_at)) >= KEYS

    await eventually(some, 10, what="commits while the memory is full")
