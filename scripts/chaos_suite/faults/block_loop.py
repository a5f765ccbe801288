"""A handler that blocks the event loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..figures import Figure
from ..site import Site
from .base import Act, Fault

AGAIN = Figure("handlers started again because they blocked the event loop for two leases", 0, "")


@dataclass(frozen=True, slots=True)
class BlockLoop(Fault):
    """Blocks the event loop of a worker.

    Attributes:
        leases: how long, in leases.
    """

    leases: float = 2.0

    name: ClassVar[str] = "block-loop"
    act: ClassVar[Act] = "processes"
    summary: ClassVar[str] = "a handler blocks the event loop of its worker for two leases (time.sleep)"
    promise: ClassVar[str] = "the lease goes on, nothing is run again"
    figures: ClassVar[tuple[Figure, ...]] = (AGAIN,)
    seconds: ClassVar[float] = 3.0
    mixes: ClassVar[bool] = True

    async def strike(self, site: Site) -> None:
        job = await site.publish("blocked.k", "block", seconds=self.leases * site.setting.lease)
        await site.committed([job])
        site.measure(AGAIN, sum(one.id == job for one in site.executions()) - 1)
