"""Stores of caches and usage: in this process, or on the server of the bus."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.store import RedisStore
from callboard.errors import OutsideContextError
from callboard.runtime.execution import current

MAX_NAMES = 10_000


class Store(Protocol):
    """Values and tables by name, each with a lifetime. `callboard.broker.redis.store.RedisStore` is one."""

    async def get(self, name: str) -> bytes | None:
        """The value of a name; None: there is none."""
        ...

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        """Keep a value for so long."""
        ...

    async def table(self, name: str) -> Mapping[str, bytes]:
        """The fields of a table."""
        ...

    async def add(self, name: str, amounts: Mapping[str, float], seconds: float) -> None:
        """Add numbers to fields of a table, each atomically, and keep the table for so long from now."""
        ...

    async def put(self, name: str, field: str, value: bytes, seconds: float) -> None:
        """Set one field of a table and keep the table for so long from now."""
        ...

    async def remove(self, name: str, field: str) -> None:
        """Remove one field of a table."""
        ...


@dataclass
class _Named:
    ends: float
    value: bytes = b""
    table: dict[str, bytes] = field(default_factory=dict)


class InMemoryStore:
    """A store in this process, for one process and for tests. The name that was used longest ago goes first.

    No method awaits anything, so each runs as a whole: of two tasks that add to one number, none overwrites the sum of
    the other.

    Args:
        max_names: how many names it keeps.
        clock: seconds.
    """

    def __init__(self, max_names: int = MAX_NAMES, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_names = max_names
        self._clock = clock
        self._named: OrderedDict[str, _Named] = OrderedDict()

    async def get(self, name: str) -> bytes | None:
        found = self._find(name)
        return None if found is None else found.value

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        self._renewed(name, seconds).value = value

    async def table(self, name: str) -> Mapping[str, bytes]:
        found = self._find(name)
        return {} if found is None else dict(found.table)

    async def add(self, name: str, amounts: Mapping[str, float], seconds: float) -> None:
        table = self._renewed(name, seconds).table
        for key, amount in amounts.items():
            table[key] = repr(float(table.get(key, b"0")) + amount).encode()

    async def put(self, name: str, field: str, value: bytes, seconds: float) -> None:
        self._renewed(name, seconds).table[field] = value

    async def remove(self, name: str, field: str) -> None:
        found = self._find(name)
        if found is not None:
            found.table.pop(field, None)

    def _find(self, name: str) -> _Named | None:
        found = self._named.get(name)
        if found is None or found.ends <= self._clock():
            self._named.pop(name, None)
            return None
        self._named.move_to_end(name)
        return found

    def _renewed(self, name: str, seconds: float) -> _Named:
        found = self._find(name) or self._named.setdefault(name, _Named(math.inf))
        found.ends = self._clock() + seconds
        while len(self._named) > self._max_names:
            self._named.popitem(last=False)
        return found


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
    execution = current.get()
    if execution is None or not isinstance(execution.owner, RedisTransport):
        raise OutsideContextError("RuntimeStore", "a message handler")
    return RedisStore(execution.owner.admin)
