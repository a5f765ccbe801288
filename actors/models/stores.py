"""Where caches and usage are kept: in this process, or on the server of the bus."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from broker.redis.store import RedisStore
from broker.redis.transport import RedisTransport

from ..activation import current
from ..errors import OutsideContextError

MAX_ENTRIES = 10_000


class Store(Protocol):
    """Values and tables by name, each with a lifetime. `broker.redis.store.RedisStore` is one."""

    async def get(self, name: str) -> bytes | None:
        """The value of a name; None: there is none."""
        ...

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        """Keeps a value for so long."""
        ...

    async def table(self, name: str) -> Mapping[str, bytes]:
        """The fields of a table."""
        ...

    async def add(self, name: str, amounts: Mapping[str, float], seconds: float) -> None:
        """Adds numbers to fields of a table, each atomically, and keeps the table for so long from now."""
        ...

    async def put(self, name: str, field: str, value: bytes, seconds: float) -> None:
        """Sets one field of a table and keeps the table for so long from now."""
        ...

    async def remove(self, name: str, field: str) -> None:
        """Removes one field of a table."""
        ...


@dataclass
class _Entry:
    ends: float
    value: bytes = b""
    table: dict[str, bytes] = field(default_factory=dict)


class MemoryStore:
    """A store in this process, for one process and for tests. What was used longest ago goes first.

    Args:
        max_entries: how many names it keeps.
        clock: seconds.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_entries = max_entries
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    async def get(self, name: str) -> bytes | None:
        entry = self._find(name)
        return None if entry is None else entry.value

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        self._entry(name, seconds).value = value

    async def table(self, name: str) -> Mapping[str, bytes]:
        entry = self._find(name)
        return {} if entry is None else dict(entry.table)

    async def add(self, name: str, amounts: Mapping[str, float], seconds: float) -> None:
        table = self._entry(name, seconds).table
        for key, amount in amounts.items():
            table[key] = repr(float(table.get(key, b"0")) + amount).encode()

    async def put(self, name: str, field: str, value: bytes, seconds: float) -> None:
        self._entry(name, seconds).table[field] = value

    async def remove(self, name: str, field: str) -> None:
        entry = self._find(name)
        if entry is not None:
            entry.table.pop(field, None)

    def _find(self, name: str) -> _Entry | None:
        entry = self._entries.get(name)
        if entry is None or entry.ends <= self._clock():
            self._entries.pop(name, None)
            return None
        self._entries.move_to_end(name)
        return entry

    def _entry(self, name: str, seconds: float) -> _Entry:
        entry = self._find(name) or self._entries.setdefault(name, _Entry(math.inf))
        entry.ends = self._clock() + seconds
        while len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
        return entry


class RuntimeStore:
    """The store on the server whose message is being handled, so that nothing has to be set up.

    For clients that are made before there is a runtime. Every method raises OutsideContextError outside a handler.
    """

    async def get(self, name: str) -> bytes | None:
        return await _of_handler().get(name)

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        await _of_handler().set(name, value, seconds)

    async def table(self, name: str) -> Mapping[str, bytes]:
        return await _of_handler().table(name)

    async def add(self, name: str, amounts: Mapping[str, float], seconds: float) -> None:
        await _of_handler().add(name, amounts, seconds)

    async def put(self, name: str, field: str, value: bytes, seconds: float) -> None:
        await _of_handler().put(name, field, value, seconds)

    async def remove(self, name: str, field: str) -> None:
        await _of_handler().remove(name, field)


def _of_handler() -> RedisStore:
    activation = current.get()
    if activation is None or not isinstance(activation.owner, RedisTransport):
        raise OutsideContextError("RuntimeStore", "a message handler")
    return RedisStore(activation.owner.admin)
