"""How large the state of an agent is, and each of its logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from callboard.broker.redis.client.states import lengths_of
from callboard.broker.redis.client.transport import RedisTransport

from .numbers import number

SAMPLED = 5  # items at each end of a log from whose sizes that of the whole is estimated


@dataclass(frozen=True, slots=True)
class LogSize:
    """The size of one log.

    Attributes:
        items: how many.
        bytes: of their JSON together; estimated from some of them.
    """

    items: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StateSize:
    """The size of a stored state.

    Attributes:
        version: commits that it has seen.
        data: bytes of its JSON, without the logs; 0: the default.
        logs: by field.
    """

    version: int
    data: int
    logs: Mapping[str, LogSize]

    @property
    def total(self) -> int:
        """Bytes of all of it."""
        return self.data + sum(log.bytes for log in self.logs.values())


async def sizes_of(transport: RedisTransport, agent_type: str, key: str) -> StateSize | None:
    """The sizes of a stored state, whatever its length at little cost; None: nothing is stored."""
    state = transport.keys.of(f"state:{agent_type}:{key}")
    version, line = await transport.admin.command("HMGET", state, "v", "l")
    if version is None:
        return None
    data: int = await transport.admin.command("HSTRLEN", state, "d")
    names = {field: transport.keys.of(f"log:{agent_type}:{key}:{field}") for field in lengths_of(line)}
    return StateSize(
        number(version) or 0, data, {field: await _size(transport, key) for field, key in names.items()}
    )


async def _size(transport: RedisTransport, key: str) -> LogSize:
    items: int = await transport.admin.command("LLEN", key)
    first: list[bytes] = await transport.admin.command("LRANGE", key, 0, SAMPLED - 1)
    last: list[bytes] = await transport.admin.command("LRANGE", key, -SAMPLED, -1)
    sample = first if items <= SAMPLED else first + last
    return LogSize(items, sum(map(len, sample)) * items // len(sample) if sample else 0)
