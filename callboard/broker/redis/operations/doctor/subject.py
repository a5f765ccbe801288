"""The subject of the checks: one namespace on one server, each thing read once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callboard.broker.errors import CommandError
from callboard.broker.redis.client.info import info_fields
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.operations.inspect import Overview, overview
from callboard.broker.redis.operations.repair import Fault, find


class Subject:
    """A server and a namespace under examination; nothing is changed.

    Attributes:
        transport: the connection.
    """

    def __init__(self, transport: RedisTransport) -> None:
        self.transport = transport
        self.settings = transport.settings
        self._info: dict[str, str] | None = None
        self._overview: Overview | None = None
        self._faults: tuple[Fault, ...] | None = None

    @property
    def is_in_memory(self) -> bool:
        """Whether it is the stand-in server of memory:// URLs, which has no settings to look at."""
        return self.transport.endpoint.scheme == "memory"

    async def command(self, *arguments: Any) -> Any:
        """Runs a command."""
        return await self.transport.admin.command(*arguments)

    async def of(self, command: str, suffix: str, *arguments: Any) -> Any:
        """Runs a command on a key of the namespace."""
        return await self.command(command, self.transport.keys.of(suffix), *arguments)

    async def info(self) -> Mapping[str, str]:
        """The fields of INFO; empty where the server has none."""
        if self._info is None:
            self._info = {} if self.is_in_memory else info_fields(await self.command("INFO"))
        return self._info

    async def setting(self, name: str) -> str | None:
        """A setting of the server; None: it does not say, or the user may not ask."""
        try:
            flat = await self.command("CONFIG", "GET", name)
        except CommandError:
            return None
        return _text(flat[1]) if len(flat) > 1 else None

    async def now_ms(self) -> int:
        """The server's time."""
        seconds, micros = await self.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def overview(self) -> Overview:
        """How the namespace stands."""
        if self._overview is None:
            self._overview = await overview(self.transport)
        return self._overview

    async def faults(self) -> tuple[Fault, ...]:
        """The faults inside the namespace."""
        if self._faults is None:
            self._faults = await find(self.transport)
        return self._faults


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
