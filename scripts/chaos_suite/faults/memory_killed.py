"""Kill -9 of a memory service while it adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from callboard import TopicId
from callboard.broker import BrokerSettings
from callboard.memory import MemoryContent
from callboard.memory_service import Add, MemoryChanges, MemoryServiceClient
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.eventually import eventually

from ..above.beside import Beside, soon_after
from ..above.recall import AGENT, STORE, app, fact
from ..site import Site
from .base import Act, Fault, require

FACTS = 160
KILLS = (40, 90)
"""How many memories there are when it is killed, and a moment later."""


@dataclass(frozen=True, slots=True)
class MemoryKilled(Fault):
    """Kills the service in the middle, and at the end in peace, and asks it for everything each time."""

    name: ClassVar[str] = "memory-killed"
    act: ClassVar[Act] = "above"
    summary: ClassVar[str] = (
        "kill -9 of a memory service, twice while it adds 160 memories and once when it has; then it is asked for each"
    )
    promise: ClassVar[str] = (
        "each memory is there once, and found by its own text and a filter that only it passes"
    )
    seconds: ClassVar[float] = 8.0

    async def strike(self, site: Site) -> None:
        store = {STORE: str(site.folder / "memories")}
        async with Beside(site, "recall", "scripts.chaos_suite.above.recall:app", store) as beside:
            settings = BrokerSettings(namespace=beside.namespace)
            async with RedisAgentRuntime.from_app(app, beside.url, settings=settings, types=()) as runtime:
                memory = MemoryServiceClient(runtime, AGENT)
                for number in range(FACTS):
                    await _add(runtime, number)
                for at_least in KILLS:
                    service = await beside.worker()
                    await _has(memory, at_least)
                    await soon_after(service, site.chance.random() / 20)
                service = await beside.worker()
                await _has(memory, FACTS)
                lost = await _lost(memory)
                service.kill()
                await beside.worker()
                lost += await _lost(memory)
                stats = await memory.stats()
        require(not lost, f"not found: {lost}")
        require(stats.count == FACTS, f"{stats.count} memories of {FACTS}")


async def _add(runtime: RedisAgentRuntime, number: int) -> None:
    """As a handler of an agent does, whose additions have ids that are the same in each attempt."""
    metadata = {"id": f"n{number}", "number": number}
    content = MemoryContent(content=fact(number), mime_type="text/plain", metadata=metadata)
    changes = MemoryChanges(changes=[Add(contents=[content])])
    await runtime.publish_message(changes, TopicId("memory:memory", AGENT))


async def _has(memory: MemoryServiceClient, at_least: int) -> None:
    async def has() -> bool:
        return (await memory.stats()).count >= at_least

    await eventually(has, 60, what=f"{at_least} memories")


async def _lost(memory: MemoryServiceClient) -> list[int]:
    lost = []
    for number in range(FACTS):
        for where in (None, {"number": number}):
            found = await memory.query(fact(number), where=where, k=1)
            if [one.content for one in found.results] != [fact(number)]:
                lost.append(number)
    return lost
