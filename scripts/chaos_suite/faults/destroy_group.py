"""An operator destroys a consumer group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .. import clock
from ..figures import Figure
from ..site import Site
from .base import Act, Fault

RESUME = Figure("resume after a group was destroyed", 3.0)


@dataclass(frozen=True, slots=True)
class DestroyGroup(Fault):
    """Destroys the group of the workers under load."""

    name: ClassVar[str] = "destroy-group"
    act: ClassVar[Act] = "server"
    summary: ClassVar[str] = "XGROUP DESTROY of the workers' group while they are at work"
    promise: ClassVar[str] = "it is made again where it was: nothing is lost and nothing is handled twice"
    figures: ClassVar[tuple[Figure, ...]] = (RESUME,)
    mixes: ClassVar[bool] = True

    async def strike(self, site: Site) -> None:
        await site.space.command("XGROUP", "DESTROY", site.space.prefix + "topic:jobs", "job")
        site.measure(RESUME, await site.resumed(clock.now()))
