"""How long the server is busy with single calls: by its processor time, which other programs on the machine don't change."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import redis

from callboard.broker.redis.client.commands import Beginning
from callboard.broker.redis.client.connection import Link
from callboard.broker.redis.client.endpoint import Argument
from callboard.broker.redis.client.transport import RedisTransport


class Worst(NamedTuple):
    """The longest call of one function.

    Attributes:
        ms: milliseconds.
        when: what the measurement did.
    """

    ms: float
    when: str


@dataclass(slots=True)
class Gauge:
    """The longest call of each function and of each plain command; calls are sent one after the other.

    Attributes:
        server: a connection of its own.
        functions, commands: the longest call by name.
        doing: what the measurement does now; nothing is noted while it is "".
    """

    server: redis.Redis
    functions: dict[str, Worst] = field(default_factory=dict[str, Worst])
    commands: dict[str, Worst] = field(default_factory=dict[str, Worst])
    doing: str = ""
    _last: float = 0.0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @contextmanager
    def during(self, doing: str) -> Iterator[None]:
        """What is called in the block is noted."""
        print(f"limits: {doing}", file=sys.stderr, flush=True)
        self.doing = doing
        try:
            yield
        finally:
            self.doing, self._last = "", 0.0

    async def note(self, worst: dict[str, Worst], name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Awaits the call."""
        if not self.doing:
            return await call()
        async with self._turn:
            before = self._last or self._busy()
            answer = await call()
            self._last = self._busy()
            ms = (self._last - before) * 1e3
        if name not in worst or worst[name].ms < ms:
            worst[name] = Worst(ms, self.doing)
        return answer

    def _busy(self) -> float:
        """Seconds of processor time that the thread has used which carries out commands."""
        info: dict[str, Any] = self.server.info("cpu")
        user = info.get("used_cpu_user_main_thread", info["used_cpu_user"])
        system = info.get("used_cpu_sys_main_thread", info["used_cpu_sys"])
        return float(user) + float(system)


class MeasuredLink(Link):
    """Tells a gauge of each call."""

    gauge: Gauge

    async def command(
        self, *arguments: Argument, timeout: float | None = None, beginning: Beginning | None = None
    ) -> Any:
        if beginning is not None or arguments[0] == "BLPOP":  # they wait
            return await super().command(*arguments, timeout=timeout, beginning=beginning)
        call = super().command
        return await self.gauge.note(
            self.gauge.commands, str(arguments[0]), lambda: call(*arguments, timeout=timeout)
        )

    async def run(self, name: str, arguments: Sequence[Argument], timeout: float | None = None) -> Any:
        call = super().run
        return await self.gauge.note(self.gauge.functions, name, lambda: call(name, arguments, timeout))


class MeasuredTransport(RedisTransport):
    """A transport whose calls are measured."""

    gauge: Gauge

    def link(self, purpose: str) -> Link:
        made = MeasuredLink(
            self.endpoint, self.keys, self.settings, f"callboard-{purpose}", self._revive, self._doubt_others
        )
        made.gauge = self.gauge
        self._links.add(made)
        return made


def measured(url: str, settings: Any, gauge: Gauge) -> MeasuredTransport:
    """A transport that tells this gauge."""
    kind = type("Transport", (MeasuredTransport,), {"gauge": gauge})
    made: MeasuredTransport = kind(url, settings)
    return made
