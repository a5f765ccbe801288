"""Kill -9 of `callboard up`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import psutil

from tests.helpers.eventually import eventually
from tests.helpers.processes import Process

from .. import clock
from ..figures import Figure
from ..fleet import STARTS_WITHIN
from ..site import Site
from .base import Act, Fault

ORPHANS = Figure("the workers of a killed supervisor have drained and are gone", 2.0)


@dataclass(frozen=True, slots=True)
class KillSupervisor(Fault):
    """Kills a supervisor of two workers, and starts another."""

    name: ClassVar[str] = "kill-supervisor"
    act: ClassVar[Act] = "processes"
    summary: ClassVar[str] = (
        "kill -9 of a supervisor (callboard up) with two workers under load; another is started"
    )
    promise: ClassVar[str] = (
        "its workers finish what they run and end by themselves; no operator has to look for them"
    )
    figures: ClassVar[tuple[Figure, ...]] = (ORPHANS,)
    seconds: ClassVar[float] = 4.0

    async def strike(self, site: Site) -> None:
        first = await site.fleet.supervised(2)
        orphans = psutil.Process(first.pid).children()
        first.kill()
        killed_at = clock.now()
        await eventually(lambda: not any(_is_alive(orphan) for orphan in orphans), STARTS_WITHIN)
        site.measure(ORPHANS, clock.now() - killed_at)
        second = await site.fleet.supervised(2)
        await _drained(second)


async def _drained(supervisor: Process) -> None:
    import signal

    supervisor.signal(signal.SIGTERM)
    code = await supervisor.ended(STARTS_WITHIN)
    if code != 0:
        raise RuntimeError(f"the supervisor ended with {code}: {supervisor.output()[-500:]}")


def _is_alive(process: psutil.Process) -> bool:
    return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
