"""Limits of a minute, a day or other time: what is used of each, and when there is room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from callboard.broker.redis.client.connection import scan
from callboard.broker.redis.client.transport import RedisTransport

SUFFIX = "store:window:"


@dataclass(frozen=True, slots=True)
class WindowLimit:
    """One limit of a window.

    Attributes:
        scope: what is limited, such as "client:gpt-4o".
        seconds: length of the window.
        unit: "requests", "tokens" or "usd".
        limit: the most, as the client has it that asked last.
        used: what is used, or set aside for requests under way.
        room_in: seconds until there is room for any request; 0: there is.
    """

    scope: str
    seconds: float
    unit: str
    limit: float
    used: float
    room_in: float

    @property
    def order(self) -> tuple[float, float, str]:
        """Those without room come first, with the longest wait; then the fullest."""
        return (-self.room_in, -self.used / self.limit, self.scope)


async def window_limits(transport: RedisTransport) -> Sequence[WindowLimit]:
    """The limits of windows of which something is used: those without room first, then the fullest.

    Raises:
        ServerUnavailableError, ConnectionLostError: the server can't be reached.
        CommandError: the user may not look for keys.
    """
    prefix, found = transport.keys.of(SUFFIX), set[WindowLimit]()
    async for names in scan(transport.admin, "SCAN", pattern=f"{prefix}*", of_type="hash"):
        for name in names:
            ms, _, scope = name.removeprefix(prefix.encode()).partition(b":")
            if ms.isdigit():
                found.update(await _limits_of(transport, scope, int(ms)))
    return sorted(found, key=lambda one: one.order)


async def _limits_of(transport: RedisTransport, scope: bytes, ms: int) -> Sequence[WindowLimit]:
    flat = [value.decode() for value in await transport.admin.run("window", ["look", scope, ms])]
    shown = scope.decode(errors="replace")
    return [
        WindowLimit(shown, ms / 1000, unit, float(limit), float(used), int(wait) / 1000)
        for unit, limit, used, wait in zip(flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True)
    ]
