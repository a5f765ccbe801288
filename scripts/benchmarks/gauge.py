"""How long the server is busy with single calls: by its processor time, or by the instructions that it carries out."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import redis

from callboard.broker.redis.client.connection import Link
from callboard.broker.redis.client.endpoint import Argument
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.client.wire import Beginning


class Worst(NamedTuple):
    """The longest call of one function.

    Attributes:
        most: milliseconds, or thousands of instructions.
        when: what the measurement did.
    """

    most: float
    when: str


@dataclass(slots=True)
class Gauge:
    """The longest call of each function and of each plain command; calls are sent one after the other.

    Attributes:
        busy: what the server has spent until now.
        functions, commands: the longest call by name.
        doing: what the measurement does now; nothing is noted while it is "".
        samples: how many calls of a function are measured in each thing that the measurement does, and no plain commands;
            0: all of both.
    """

    busy: Callable[[], float]
    functions: dict[str, Worst] = field(default_factory=dict[str, Worst])
    commands: dict[str, Worst] = field(default_factory=dict[str, Worst])
    doing: str = ""
    samples: int = 0
    _seen: Counter[str] = field(default_factory=Counter[str])
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
            self._seen.clear()

    async def note(self, worst: dict[str, Worst], name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Awaits the call."""
        async with self._turn:
            if not self.doing or self._is_enough(worst, name):
                self._last = 0.0
                return await call()
            before = self._last or self.busy()
            answer = await call()
            self._last = self.busy()
            spent = self._last - before
        if name not in worst or worst[name].most < spent:
            worst[name] = Worst(spent, self.doing)
        return answer

    def _is_enough(self, worst: dict[str, Worst], name: str) -> bool:
        if not self.samples:
            return False
        self._seen[name] += 1
        return worst is self.commands or self._seen[name] > self.samples


def processor_ms(server: redis.Redis) -> float:
    """Milliseconds of processor time that the thread has used which carries out commands."""
    info: dict[str, Any] = server.info("cpu")
    user = info.get("used_cpu_user_main_thread", info["used_cpu_user"])
    system = info.get("used_cpu_sys_main_thread", info["used_cpu_sys"])
    return (float(user) + float(system)) * 1e3


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

    def begin(self, name: str, arguments: Sequence[Argument]) -> None:
        """None: what is begun so is measured by `run` like any other call."""

    async def run(
        self,
        name: str,
        arguments: Sequence[Argument],
        timeout: float | None = None,
        begun: Awaitable[Any] | None = None,
    ) -> Any:
        call = super().run
        return await self.gauge.note(
            self.gauge.functions, name, lambda: call(name, arguments, timeout, begun)
        )


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
