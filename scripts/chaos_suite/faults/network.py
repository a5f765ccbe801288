"""The faults of networks, done to connections by the proxies in front of every process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from tests.helpers.eventually import eventually

from .. import clock
from ..figures import Figure
from ..proxy import Proxy
from ..site import Site
from .base import Act, Fault

RESUME = Figure("resume after every connection was cut and none could be made for half a second", 3.0)
NOTICED = Figure("a half-open connection is noticed and work goes on", 15.0)
DOWN = 0.5  # seconds
SLOW = 2.5  # seconds
LATENCY = 0.2  # seconds, each way
DROPS = 256  # bytes


@dataclass(frozen=True, slots=True)
class Cut(Fault):
    """Resets every connection."""

    name: ClassVar[str] = "cut"
    act: ClassVar[Act] = "network"
    summary: ClassVar[str] = "every connection is reset, and new ones too for half a second"
    promise: ClassVar[str] = "what was under way is carried out once"
    figures: ClassVar[tuple[Figure, ...]] = (RESUME,)
    mixes: ClassVar[bool] = True

    async def strike(self, site: Site) -> None:
        proxies = site.proxies
        for proxy in proxies:
            proxy.refuses = True
            proxy.cut()
        await asyncio.sleep(DOWN)
        for proxy in proxies:
            proxy.refuses = False
        site.measure(RESUME, await site.resumed(clock.now()))


@dataclass(frozen=True, slots=True)
class HalfOpen(Fault):
    """The connections of one worker and of one publisher fall silent."""

    name: ClassVar[str] = "half-open"
    act: ClassVar[Act] = "network"
    summary: ClassVar[str] = (
        "the connections of a worker and a publisher drop everything and tell neither side; new ones work"
    )
    promise: ClassVar[str] = "both notice by themselves and go on; what was under way is carried out once"
    figures: ClassVar[tuple[Figure, ...]] = (NOTICED,)
    seconds: ClassVar[float] = 12.0

    async def strike(self, site: Site) -> None:
        worker = await site.fleet.victim(site.chance)
        publisher = site.chance.choice(sorted(site.load.members))
        began = clock.now()
        for proxy in (worker.proxy, site.load.members[publisher].proxy):
            if proxy is not None:
                proxy.fall_silent()

        async def both_go_on() -> float:
            commits = await site.space.commits(began)
            by_worker = [one.time for one in commits if f":{worker.process.pid}:" in one.worker]
            answered = [
                event.time
                for event in site.history()
                if event.time > began and event.type == "ok" and event.process.startswith(f"{publisher}:")
            ]
            return max(min(by_worker), min(answered)) if by_worker and answered else 0.0

        site.measure(NOTICED, float(await eventually(both_go_on, 30)) - began)


@dataclass(frozen=True, slots=True)
class Slow(Fault):
    """Everything takes long for a while."""

    act: ClassVar[Act] = "network"
    promise: ClassVar[str] = "slower, and nothing else"
    seconds: ClassVar[float] = 3.5
    mixes: ClassVar[bool] = True

    def set(self, proxy: Proxy, slow: bool) -> None:
        """Makes one proxy slow, or as it was."""
        raise NotImplementedError

    async def strike(self, site: Site) -> None:
        proxies = site.proxies
        _for_all(proxies, lambda proxy: self.set(proxy, True))
        await asyncio.sleep(SLOW)
        _for_all(proxies, lambda proxy: self.set(proxy, False))
        await site.resumed(clock.now())


def _for_all(proxies: list[Proxy], change: Callable[[Proxy], None]) -> None:
    for proxy in proxies:
        change(proxy)


@dataclass(frozen=True, slots=True)
class Delay(Slow):
    """Latency."""

    name: ClassVar[str] = "delay"
    summary: ClassVar[str] = "everything takes 200 ms longer, each way"

    def set(self, proxy: Proxy, slow: bool) -> None:
        proxy.delay = LATENCY if slow else 0.0


@dataclass(frozen=True, slots=True)
class Drip(Slow):
    """Drops."""

    name: ClassVar[str] = "drip"
    summary: ClassVar[str] = "everything gets through in pieces of 256 bytes, slowly"

    def set(self, proxy: Proxy, slow: bool) -> None:
        proxy.drip = DROPS if slow else None
