"""Stores of caches and usage, in this process or on the server of the bus, and the names of what is held in them."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, Self, TypeAlias

from pydantic import BaseModel

from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.store import RedisStore
from callboard.errors import MisuseError
from callboard.foundation.component import Component, ComponentBase
from callboard.runtime.execution import current

from .windows import Ceiling, LocalWindows, Over, Window

DIGITS: Final = 16  # of the hash of a message, and of a worker


def new_hold_id() -> str:
    """A name for a hold: `<message>@<worker>/<number>` in a handler, so that `is_replaced` knows; else any number."""
    execution, number = current.get(), os.urandom(8).hex()
    if execution is None or execution.is_over or execution.receipt is None:
        return number
    message = _hash(f"{execution.agent_id}\0{execution.envelope.id}")
    return f"{message}@{_hash(execution.receipt.fence.worker)}/{number}"


def is_replaced(other: str, mine: str) -> bool:
    """Whether another hold is of the same message as mine, and of a worker that has lost it since."""
    (its_message, its_worker), (message, worker) = _parts(other), _parts(mine)
    return bool(message) and its_message == message and its_worker != worker


def _parts(hold_id: str) -> tuple[str, str]:
    message, found, rest = hold_id.partition("@")
    return (message, rest.partition("/")[0]) if found else ("", "")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


MAX_NAMES = 10_000
FORGOTTEN = 86_400.0  # seconds behind its end after which the hold of a process that died is removed

Amounts: TypeAlias = Mapping[str, float]
NOTHING: Final[Amounts] = {"tokens": 0.0, "usd": 0.0}
Limit: TypeAlias = tuple[str, str, float]
Refusal: TypeAlias = tuple[str, str, float, float]


class AnswerStore(Protocol):
    """Values by name, each with a lifetime: all that a cache needs."""

    async def get(self, name: str) -> bytes | None:
        """The value of a name; None: there is none."""
        ...

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        """Keep a value for so long."""
        ...


class Store(AnswerStore, Protocol):
    """Values and tables by name, each with a lifetime. `callboard.broker.redis.store.RedisStore` is one."""

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

    async def hold(
        self, hold_id: str, scopes: Sequence[str], amounts: Amounts, limits: Sequence[Limit], seconds: float
    ) -> Refusal | None:
        """Set an amount aside in every scope of a request, or in none of them: when it does not fit into a limit.

        Atomic, so that of two requests at once neither overlooks the other, and safe to repeat.

        Args:
            hold_id: names it, see `new_hold_id`: what another worker set aside for the same message before is given back.
            scopes: such as "total" and "run:42"; the tables `usage:<scope>` and `held:<scope>` belong to them.
            amounts: "tokens" and "usd"; -1 USD: the price is not known, and no limit in money covers it.
            limits: scope, "tokens" or "usd", and the most; those that a scope carries itself count as well.
            seconds: how long it counts when it is not settled, because its process died.

        Returns:
            None, or of the first limit that is too small: scope, unit, limit, and what is used or held by others.
        """
        ...

    async def begin(self, hold_id: str, scopes: Sequence[str], seconds: float) -> bool:
        """Begin a request in scopes that carry no limit: a hold of nothing, which has to be settled as well.

        Returns:
            False: one of them carries a limit, and nothing was done.
        """
        ...

    async def settle(
        self, hold_id: str, scopes: Sequence[str], amounts: Amounts, seconds: float, part: str = ""
    ) -> None:
        """End a hold: add what was used to every scope. Atomic, and safe to repeat: without the hold it does nothing.

        Args:
            hold_id: names it.
            scopes: those of the hold.
            amounts: fields of `usage:<scope>` and what is added to them.
            seconds: how long the sums are kept from now.
            part: `<agent> <model>`, to which the amounts are added in scopes of runs as well; "": to nothing else.
        """
        ...

    async def enter(self, hold_id: str, amounts: Amounts, ceilings: Sequence[Ceiling]) -> Over | None:
        """Begin a request in windows of time, or in none of them: when one of them has no room for it.

        Atomic, and safe to repeat. It is in its windows from now on: what a process set aside that died stays there until
        they have moved on.

        Args:
            hold_id: names the request.
            amounts: the most that it may need: "requests", "tokens" and "usd", as `hold` has them.
            ceilings: limits of windows.

        Returns:
            None, or the one with the longest wait of those that have no room.
        """
        ...

    async def leave(self, hold_id: str, amounts: Amounts, windows: Sequence[Window]) -> None:
        """End a request that entered windows: what it used counts instead of what it might have needed.

        It counts from when the request began. Atomic, and safe to repeat.
        """
        ...


@dataclass
class _Named:
    ends: float
    value: bytes = b""
    table: dict[str, bytes] = field(default_factory=dict)


class LocalStore:
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
        self._windows = LocalWindows(clock)

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

    async def hold(
        self, hold_id: str, scopes: Sequence[str], amounts: Amounts, limits: Sequence[Limit], seconds: float
    ) -> Refusal | None:
        for scope, unit, most in (*limits, *self._own_limits(scopes)):
            used = self._used(scope, unit) + self._held(scope, unit, hold_id)
            if used + amounts[unit] > most or amounts[unit] < 0:
                return scope, unit, most, used
        value = f"{self._clock() + seconds} {amounts['tokens']} {max(0.0, amounts['usd'])}".encode()
        for scope in scopes:
            self._renewed(f"held:{scope}", seconds + FORGOTTEN).table[hold_id] = value
        return None

    async def begin(self, hold_id: str, scopes: Sequence[str], seconds: float) -> bool:
        if self._own_limits(scopes):
            return False
        await self.hold(hold_id, scopes, NOTHING, (), seconds)
        return True

    async def settle(
        self, hold_id: str, scopes: Sequence[str], amounts: Amounts, seconds: float, part: str = ""
    ) -> None:
        of_part = {f"{part} {name}": amount for name, amount in amounts.items()} if part else {}
        for scope in scopes:
            held = self._find(f"held:{scope}")
            if held is not None and held.table.pop(hold_id, None) is not None:
                more = of_part if scope.startswith("run:") else {}
                await self.add(f"usage:{scope}", {**amounts, **more}, seconds)

    async def enter(self, hold_id: str, amounts: Amounts, ceilings: Sequence[Ceiling]) -> Over | None:
        return self._windows.enter(hold_id, amounts, ceilings)

    async def leave(self, hold_id: str, amounts: Amounts, windows: Sequence[Window]) -> None:
        self._windows.leave(hold_id, amounts, windows)

    def _own_limits(self, scopes: Sequence[str]) -> list[Limit]:
        tables = ((scope, self._find(f"usage:{scope}")) for scope in scopes)
        return [
            (scope, unit, float(found.table[f"limit_{unit}"]))
            for scope, found in tables
            for unit in ("tokens", "usd")
            if found is not None and f"limit_{unit}" in found.table
        ]

    def _used(self, scope: str, unit: str) -> float:
        found = self._find(f"usage:{scope}")
        fields = ("prompt_tokens", "completion_tokens") if unit == "tokens" else (unit,)
        return 0.0 if found is None else sum(float(found.table.get(name, b"0")) for name in fields)

    def _held(self, scope: str, unit: str, hold_id: str) -> float:
        found = self._find(f"held:{scope}")
        table = found.table if found else {}
        for name in [name for name in table if is_replaced(name, hold_id)]:
            ends, _ = read_hold(table[name], unit)
            table[name] = f"{ends} 0 0".encode()  # it stays, so that its request is counted should it end
        others = (value for name, value in table.items() if name != hold_id)
        return sum(
            amount for ends, amount in (read_hold(value, unit) for value in others) if ends > self._clock()
        )

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


def read_hold(value: bytes, unit: str) -> tuple[float, float]:
    """When a hold of a table `held:<scope>` ends, by the store's clock in its own unit, and its tokens or USD."""
    ends, tokens, usd = value.split()
    return float(ends), float(tokens if unit == "tokens" else usd)


class RuntimeStoreConfig(BaseModel):
    """Nothing: the server is that of the process."""


class RuntimeStore(ComponentBase[BaseModel], Component[RuntimeStoreConfig]):
    """The store on the server whose message is being handled, so that nothing has to be set up.

    For clients that are made before there is a runtime. Every method raises MisuseError outside a handler.
    """

    component_type = "cache_store"
    component_config_schema = RuntimeStoreConfig
    component_provider_override = "callboard.models.RuntimeStore"

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

    async def hold(
        self, hold_id: str, scopes: Sequence[str], amounts: Amounts, limits: Sequence[Limit], seconds: float
    ) -> Refusal | None:
        return await _of_handler().hold(hold_id, scopes, amounts, limits, seconds)

    async def begin(self, hold_id: str, scopes: Sequence[str], seconds: float) -> bool:
        return await _of_handler().begin(hold_id, scopes, seconds)

    async def settle(
        self, hold_id: str, scopes: Sequence[str], amounts: Amounts, seconds: float, part: str = ""
    ) -> None:
        await _of_handler().settle(hold_id, scopes, amounts, seconds, part)

    async def enter(self, hold_id: str, amounts: Amounts, ceilings: Sequence[Ceiling]) -> Over | None:
        return await _of_handler().enter(hold_id, amounts, ceilings)

    async def leave(self, hold_id: str, amounts: Amounts, windows: Sequence[Window]) -> None:
        await _of_handler().leave(hold_id, amounts, windows)

    def _to_config(self) -> RuntimeStoreConfig:
        return RuntimeStoreConfig()

    @classmethod
    def _from_config(cls, config: RuntimeStoreConfig) -> Self:
        return cls()


def is_of_handler(store: Store) -> bool:
    """Whether a store is on the server, and in the namespace, whose message is being handled."""
    execution = current.get()
    if execution is None or not isinstance(execution.owner, RedisTransport):
        return False
    return isinstance(store, RuntimeStore) or (
        isinstance(store, RedisStore) and store.is_same(execution.owner.admin)
    )


def _of_handler() -> RedisStore:
    execution = current.get()
    if execution is None or not isinstance(execution.owner, RedisTransport):
        raise MisuseError("RuntimeStore must be called within a message handler.")
    return RedisStore(execution.owner.admin)
