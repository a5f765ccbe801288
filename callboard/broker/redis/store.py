"""Values and tables by name, with a lifetime, for what is not delivery: caches and counters of an application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callboard.broker.errors import ConnectionLostError
from callboard.broker.redis.client.connection import Link
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.client.sentinels import PrimaryWatch, watch_of
from callboard.broker.settings import DEFAULT_NAMESPACE, BrokerSettings

from .keys import Keys


class RedisStore:
    """A store in a namespace, shared by everybody who uses that namespace.

    Args:
        link: the connection, such as `runtime.transport.admin`.
        watch: of its primary, which ends with this store.
    """

    def __init__(self, link: Link, watch: PrimaryWatch | None = None) -> None:
        self._link = link
        self._watch = watch

    @classmethod
    def at(cls, url: str, settings: BrokerSettings | None = None) -> RedisStore:
        """A store with a connection of its own, made when it is first used; `close` ends it.

        Args:
            url: redis://, rediss://, redis+sentinel://, unix:// or memory://.
            settings: namespace and timeouts.
        """
        chosen = settings or BrokerSettings()
        endpoint, keys = Endpoint.parse(url), Keys(chosen.namespace or DEFAULT_NAMESPACE)
        watch = watch_of(endpoint, chosen)
        return cls(Link(endpoint, keys, chosen, "callboard-store", watch=watch), watch)

    async def get(self, name: str) -> bytes | None:
        """The value of a name; None: there is none."""
        value: bytes | None = await self._link.command("GET", self._key(name))
        return value

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        """Keeps a value for so long."""
        await self._link.command("SET", self._key(name), value, "PX", _ms(seconds))

    async def set_new(self, name: str, value: bytes, seconds: float) -> bytes:
        """Keeps a value for so long unless there is one; returns the one that is kept."""
        key = self._key(name)
        while not await self._link.command("SET", key, value, "NX", "PX", _ms(seconds)):
            kept: bytes | None = await self._link.command("GET", key)
            if kept is not None:  # else its time was over in between
                return kept
        return value

    async def table(self, name: str) -> Mapping[str, bytes]:
        """The fields of a table."""
        flat = await self._link.command("HGETALL", self._key(name))
        return {field.decode(): value for field, value in zip(flat[::2], flat[1::2], strict=True)}

    async def add(self, name: str, amounts: Mapping[str, float], seconds: float) -> None:
        """Adds numbers to fields of a table, each atomically, and keeps the table for so long from now."""
        for field, amount in amounts.items():
            await self._link.command("HINCRBYFLOAT", self._key(name), field, repr(amount))
        await self._keep(name, seconds)

    async def put(self, name: str, field: str, value: bytes, seconds: float) -> None:
        """Sets one field of a table and keeps the table for so long from now."""
        await self._link.command("HSET", self._key(name), field, value)
        await self._keep(name, seconds)

    async def remove(self, name: str, field: str) -> None:
        """Removes one field of a table."""
        await self._link.command("HDEL", self._key(name), field)

    async def hold(
        self,
        hold_id: str,
        scopes: Sequence[str],
        amounts: Mapping[str, float],
        limits: Sequence[tuple[str, str, float]],
        seconds: float,
    ) -> tuple[str, str, float, float] | None:
        """Sets an amount aside in all scopes or, when it does not fit into a limit, in none: `callboard.models.stores`."""
        arguments = [
            "hold",
            hold_id,
            repr(amounts["tokens"]),
            repr(amounts["usd"]),
            _ms(seconds),
            len(scopes),
            *scopes,
        ]
        arguments += [part for scope, unit, most in limits for part in (scope, unit, repr(most))]
        refused = await self._run_again(arguments)
        if not refused:
            return None
        scope, unit, most, used = (value.decode() for value in refused)
        return scope, unit, float(most), float(used)

    async def begin(self, hold_id: str, scopes: Sequence[str], seconds: float) -> bool:
        """Begins a request in scopes without limits; False: one of them has one. `callboard.models.stores`."""
        return bool(await self._run_again(["begin", hold_id, _ms(seconds), *scopes]))

    async def settle(
        self,
        hold_id: str,
        scopes: Sequence[str],
        amounts: Mapping[str, float],
        seconds: float,
        part: str = "",
    ) -> None:
        """Ends a hold, with what was used in its place: `callboard.models.stores`."""
        used = [word for field, amount in amounts.items() for word in (field, repr(amount))]
        await self._run_again(["settle", hold_id, _ms(seconds), part, len(scopes), *scopes, *used])

    async def enter(
        self, hold_id: str, amounts: Mapping[str, float], ceilings: Sequence[tuple[str, float, str, float]]
    ) -> tuple[str, float, str, float, float, float | None, float] | None:
        """Begins a request in windows of time, or in none when one has no room: `callboard.models.stores`."""
        limits = [
            word
            for scope, seconds, unit, most in ceilings
            for word in (scope, _ms(seconds), unit, repr(float(most)))
        ]
        refused = await self._run_again(["enter", hold_id, *_amounts(amounts), *limits], "window")
        if not refused:
            return None
        scope, ms, unit, most, used, wait, line = (value.decode() for value in refused)
        seconds_left = float(wait) / 1000 if wait else None
        return scope, int(ms) / 1000, unit, float(most), float(used), seconds_left, float(line) / 1000

    async def leave(
        self, hold_id: str, amounts: Mapping[str, float], windows: Sequence[tuple[str, float]]
    ) -> None:
        """Ends a request that entered windows, with what it used in its place: `callboard.models.stores`."""
        named = [word for scope, seconds in windows for word in (scope, _ms(seconds))]
        await self._run_again(["leave", hold_id, *_amounts(amounts), *named], "window")

    def is_same(self, link: Link) -> bool:
        """Whether a connection leads to the same server and namespace."""
        mine = self._link
        return (mine.endpoint, mine.keys.of("")) == (link.endpoint, link.keys.of(""))

    async def _run_again(self, arguments: Sequence[Any], function: str = "ledger") -> Any:
        """Runs a function that counts, again when the connection breaks before its answer: it is safe to repeat."""
        try:
            return await self._link.run(function, arguments)
        except ConnectionLostError:
            await self._link.reconnect(self._link.settings.socket_timeout)
            return await self._link.run(function, arguments)

    async def _keep(self, name: str, seconds: float) -> None:
        await self._link.command("PEXPIRE", self._key(name), _ms(seconds))

    def _key(self, name: str) -> str:
        return self._link.keys.of(f"store:{name}")

    def close(self) -> None:
        """Ends the connection."""
        self._link.close()
        if self._watch is not None:
            self._watch.close()


def _ms(seconds: float) -> int:
    return max(1, int(seconds * 1000))


def _amounts(amounts: Mapping[str, float]) -> list[str]:
    return [repr(float(amounts[unit])) for unit in ("requests", "tokens", "usd")]
