"""Kill -9 of the server, which comes back with its file."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from .. import clock
from ..figures import Figure
from ..setting import Sync
from ..site import Site
from .base import Act, Fault

RESUME = Figure("resume after the server was killed and is back", 3.0)
DOWN = 0.5  # seconds; long enough for everybody to try in vain


@dataclass(frozen=True, slots=True)
class KillServer(Fault):
    """Kills the server under load."""

    sync: ClassVar[Sync]
    act: ClassVar[Act] = "server"
    promise: ClassVar[str] = (
        "everything acknowledged is there; workers and publishers connect again by themselves"
    )
    figures: ClassVar[tuple[Figure, ...]] = (RESUME,)

    async def strike(self, site: Site) -> None:
        await site.client.config_set("appendfsync", self.sync)
        site.server.kill()
        await asyncio.sleep(DOWN)
        site.server.start()
        site.measure(RESUME, await site.resumed(clock.now()))


@dataclass(frozen=True, slots=True)
class KillServerAlways(KillServer):
    """With a file that is synced with every write."""

    sync: ClassVar[Sync] = "always"
    name: ClassVar[str] = "kill-server-always"
    summary: ClassVar[str] = "kill -9 of the server with appendfsync always; it starts again with its file"
    mixes: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class KillServerEverysec(KillServer):
    """With a file that is synced every second: the kernel has what the process wrote."""

    sync: ClassVar[Sync] = "everysec"
    name: ClassVar[str] = "kill-server-everysec"
    summary: ClassVar[str] = "kill -9 of the server with appendfsync everysec; it starts again with its file"
