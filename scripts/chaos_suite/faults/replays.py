"""Dead letters that are replayed, and replayed again by mistake."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from callboard.broker.redis.operations import deadletters
from tests.helpers.eventually import eventually

from ..site import Site
from ..workload import HEALED
from .base import Act, Fault

JOBS = 20


@dataclass(frozen=True, slots=True)
class Replays(Fault):
    """Lets jobs fail for good, mends what was wrong, and replays them from several sides at once."""

    name: ClassVar[str] = "replays"
    act: ClassVar[Act] = "processes"
    summary: ClassVar[str] = (
        "20 messages become dead letters; when what was wrong is mended they are replayed three times"
    )
    promise: ClassVar[str] = "each is handled once"
    seconds: ClassVar[float] = 1.5

    async def strike(self, site: Site) -> None:
        jobs = [await site.publish(f"dead.k{number}", "raise", topic="frail") for number in range(JOBS)]
        site.unordered.update(jobs)

        async def letters() -> set[str]:
            return {letter.id for letter in await site.space.letters()} & set(jobs)

        async def are_dead() -> bool:
            return len(await letters()) == JOBS

        await eventually(are_dead, 20, what="dead letters")
        listed = await deadletters.list_letters(site.runtime.transport, "frail")
        ids = [one.id for one in listed if one.message_id in jobs]
        healed = site.folder / HEALED
        healed.touch()
        try:
            await asyncio.gather(
                *(deadletters.replay(site.runtime.transport, "frail", ids) for _ in range(3))
            )
            await site.committed(jobs)
        finally:
            healed.unlink()
