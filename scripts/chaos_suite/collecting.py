"""Reads what a run left on the server, with plain commands and msgpack: nothing of the code under test."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import msgpack
import redis.asyncio as redis

from .evidence import Commit, Letter, StoredKey

PAGE = 1000  # entries in one command


class Namespace:
    """One namespace on a server.

    Args:
        client: a connection of redis-py.
        name: of the namespace.
    """

    def __init__(self, client: redis.Redis, name: str) -> None:
        self._redis: Any = client
        self.prefix = f"callboard:{{{name}}}:"

    async def command(self, *words: str | bytes | float) -> Any:
        """Any command, as it is."""
        return await self._redis.execute_command(*words)

    async def entries(self, suffix: str, after: float = 0) -> AsyncIterator[tuple[str, dict[bytes, bytes]]]:
        """The entries of a stream. `after`: time in seconds; only those that are younger."""
        start = f"{int(after * 1000) + 1}" if after else "-"
        while True:
            page = await self._redis.xrange(self.prefix + suffix, start, "+", count=PAGE)
            for entry, fields in page:
                yield entry.decode(), fields
            if len(page) < PAGE:
                return
            start = f"({page[-1][0].decode()}"

    async def commits(self, after: float = 0) -> list[Commit]:
        """The effects, in the order of the commits."""
        return [_commit(entry, fields) async for entry, fields in self.entries("topic:effects", after)]

    async def letters(self) -> list[Letter]:
        """All dead letters."""
        found = []
        for agent_type in await self._types():
            async for _, fields in self.entries(f"dead:{agent_type}"):
                found.append(_letter(agent_type, fields))
        return found

    async def states(self) -> dict[str, int]:
        """The count in the state of each agent, by `type/key`."""
        found = {}
        async for name in self._names("state:*"):
            agent_type, _, key = name.removeprefix("state:").partition(":")
            data = await self._redis.hget(self.prefix + name, "d")
            found[f"{agent_type}/{key}"] = int(json.loads(data)["total"]) if data else 0
        return found

    async def pending(self) -> dict[str, int]:
        """Entries that are not acknowledged, by `stream group`; without those that have none."""
        found = {}
        for suffix, group in await self._groups():
            number = int((await self._redis.xpending(self.prefix + suffix, group))["pending"])
            if number:
                found[f"{suffix} {group}"] = number
        return found

    async def unread(self) -> int:
        """The number of entries that their group has not been given yet, of all streams that have a group."""
        number = 0
        for suffix, group in await self._groups():
            info = next(
                one
                for one in await self._redis.xinfo_groups(self.prefix + suffix)
                if one["name"].decode() == group
            )
            last = info["last-delivered-id"].decode()
            number += len(await self._redis.xrange(self.prefix + suffix, f"({last}", "+", count=PAGE))
        return number

    async def consumers(self) -> dict[str, frozenset[str]]:
        """Names of the consumers, by `stream group`."""
        found = {}
        for suffix, group in await self._groups():
            listed = await self._redis.xinfo_consumers(self.prefix + suffix, group)
            found[f"{suffix} {group}"] = frozenset(one["name"].decode() for one in listed)
        return found

    async def busy(self) -> list[str]:
        """`type/key` of the agents that run or wait."""
        return [
            f"{agent_type}/{key.decode()}"
            for agent_type in await self._types()
            for key in await self._redis.hkeys(f"{self.prefix}busy:{agent_type}")
        ]

    async def timers(self) -> int:
        """The number of timers that are not due yet."""
        return int(await self._redis.zcard(self.prefix + "timers"))

    async def workers(self) -> list[str]:
        """The incarnations that have a lease."""
        return [name.decode() for name in await self._redis.zrange(self.prefix + "workers", 0, -1)]

    async def keys(self) -> list[StoredKey]:
        """Every key that is left."""
        found = []
        async for name in self._names("*"):
            ttl = await self._redis.pttl(self.prefix + name)
            if ttl != -2:  # it was there a moment ago
                found.append(StoredKey(name, None if ttl == -1 else ttl / 1000))
        return found

    async def _names(self, pattern: str) -> AsyncIterator[str]:
        seen = set()
        async for name in self._redis.scan_iter(match=self.prefix + pattern, count=PAGE):
            if name not in seen:
                seen.add(name)
                yield name.decode().removeprefix(self.prefix)

    async def _types(self) -> list[str]:
        return sorted(name.decode() for name in await self._redis.hkeys(self.prefix + "types"))

    async def _groups(self) -> list[tuple[str, str]]:
        found = []
        async for name in self._names("*"):
            if name.startswith(("topic:", "inbox:")):
                listed = await self._redis.xinfo_groups(self.prefix + name)
                found += [(name, one["name"].decode()) for one in listed]
        return found


def _commit(entry: str, fields: dict[bytes, bytes]) -> Commit:
    body: dict[str, Any] = msgpack.unpackb(fields[b"body"])
    time = int(entry.partition("-")[0]) / 1000
    return Commit(
        time, body["id"], body["key"], body["run"], body["worker"], body["count"], body["published"]
    )


def _letter(agent_type: str, fields: dict[bytes, bytes]) -> Letter:
    origin = f"{fields[b'stream'].decode()} {fields[b'entry'].decode()}"
    return Letter(
        agent_type,
        _job_id(fields[b"body"]),
        origin,
        fields[b"reason"].decode(errors="replace"),
        int(fields[b"attempts"]),
    )


def _job_id(body: bytes) -> str:
    """Junk may be anything; what is no job has no id."""
    try:
        found = msgpack.unpackb(body, strict_map_key=False)
    except (ValueError, msgpack.UnpackException, RecursionError):
        return ""
    return str(found.get("id", "")) if isinstance(found, dict) else ""
