"""A rolling restart, as a deployment does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .. import clock
from ..figures import Figure
from ..site import Site
from .base import Act, Fault

TWICE = Figure("handlers started twice in a rolling restart", 0, "")
LONG = 1.0  # seconds of some handlers


@dataclass(frozen=True, slots=True)
class RollingRestart(Fault):
    """Replaces every worker under load."""

    name: ClassVar[str] = "rolling-restart"
    act: ClassVar[Act] = "processes"
    summary: ClassVar[str] = (
        "every worker is replaced under load, one at a time: a new one starts, SIGTERM to the old one"
    )
    promise: ClassVar[str] = "what runs is finished, nothing is executed twice"
    figures: ClassVar[tuple[Figure, ...]] = (TWICE,)
    seconds: ClassVar[float] = 6.0

    async def strike(self, site: Site) -> None:
        began = clock.now()
        for member in list(site.fleet.members):
            for number in range(3):
                await site.publish(f"long.k{number}", seconds=LONG)
            await site.fleet.grow(1)
            code = await site.fleet.retire(member)
            if code != 0:
                raise RuntimeError(f"{member.name} ended with {code}: {member.process.output()[-500:]}")
        started = [one.id for one in site.executions() if one.start >= began]
        site.measure(TWICE, len(started) - len(set(started)))
