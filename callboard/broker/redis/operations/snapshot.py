"""Everything that the books of a namespace say, read piece by piece while workers may go on: only a source of suspicions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from callboard.broker.errors import CommandError
from callboard.broker.redis.client.transport import RedisTransport

from .inspect import time_of

T = TypeVar("T")

AT_ONCE = 500  # commands on their way
PAGE = 1000  # pending entries in one answer
TYPES = ("string", "list", "hash", "set", "zset", "stream")
OF_AGENTS = {"state:": "hash", "log:": "list"}  # keys of which there are as many as agents, and their type
MOST_PENDING = 200_000  # of one group; what lies beyond is looked at by the next run


@dataclass(slots=True)
class ReaderGroup:
    """One consumer group: its consumers, and the ids of its pending entries."""

    name: str
    consumers: list[str] = field(default_factory=list[str])
    pending: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Books:
    """The books of one agent type: the messages that it has in hand, as its Redis keys have them.

    Attributes:
        streams: suffixes that it says it reads.
        busy: agent key -> worker, or "" while parked entries wait to be taken.
        parked: agent key -> number of parked entries, as counted.
        wait: agent key -> refs.
        ready: keys to be taken, those that are tried alone included.
        aside: keys that are put aside: paused, or waiting for a newer worker.
        suspended: keys that are said to wait for an answer.
        early: members.
        tries: refs.
    """

    streams: set[str] = field(default_factory=set[str])
    busy: dict[str, str] = field(default_factory=dict[str, str])
    parked: dict[str, int] = field(default_factory=dict[str, int])
    wait: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    ready: set[str] = field(default_factory=set[str])
    aside: set[str] = field(default_factory=set[str])
    suspended: set[str] = field(default_factory=set[str])
    early: list[str] = field(default_factory=list[str])
    tries: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class BookSnapshot:
    """A namespace.

    Attributes:
        names: suffixes of all keys but the states and logs of agents; of these only those of a wrong type.
        logs: type, key and field of each log; and "" as the field for each agent of a type that has logs.
        types: what TYPE says of each of them.
        declared: agent types.
        subscribers: topic type -> agent types.
        leases: worker -> when its lease ends, server ms.
        now: server ms.
        own: worker -> field -> agent key; also for workers that have no lease.
        books: agent type -> what it has in hand.
        groups: suffix of a stream -> its groups.
        timers: members.
        stray: delayed messages that are in no timer, suffixes.
        urgent: `<type> <key>` of agents that wait for a reset.
        questions: ids of all questions.
    """

    names: set[str] = field(default_factory=set[str])
    logs: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    types: dict[str, str] = field(default_factory=dict[str, str])
    declared: set[str] = field(default_factory=set[str])
    subscribers: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    leases: dict[str, int] = field(default_factory=dict[str, int])
    now: int = 0
    own: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    books: dict[str, Books] = field(default_factory=dict[str, Books])
    groups: dict[str, list[ReaderGroup]] = field(default_factory=dict[str, list[ReaderGroup]])
    timers: set[str] = field(default_factory=set[str])
    stray: set[str] = field(default_factory=set[str])
    urgent: set[str] = field(default_factory=set[str])
    questions: set[str] = field(default_factory=set[str])

    def of_type(self, suffix: str, wanted: str) -> bool:
        """Whether a key is there and of a type that can be read."""
        return self.types.get(suffix) == wanted


async def each(items: Iterable[T], read: Callable[[T], Awaitable[Any]]) -> list[Any]:
    """The answers of `read` for the items, in their order; many commands at once on one connection."""
    listed = list(items)
    answers: list[Any] = []
    for start in range(0, len(listed), AT_ONCE):
        answers += await asyncio.gather(*(read(item) for item in listed[start : start + AT_ONCE]))
    return answers


class Photographer:
    """Takes a snapshot."""

    def __init__(self, transport: RedisTransport) -> None:
        self._transport = transport
        self._snapshot = BookSnapshot()
        self._is_paused = False

    async def take(self) -> BookSnapshot:
        """Reads everything but the states of agents."""
        shot = self._snapshot
        await self._read_names()
        shot.declared = set(await self._mapping("types"))
        shot.subscribers = {topic: types.split() for topic, types in (await self._mapping("topics")).items()}
        await self._read_workers()
        shot.timers = set(await self._members("timers"))
        await self._read_stray()
        shot.urgent = set(await self._mapping("urgent"))
        records = {name.partition(":")[2] for name in shot.names if name.startswith("input:")}
        shot.questions = records | set(await self._members("inputs"))
        self._is_paused = bool(await self._mapping("paused"))
        for agent_type in sorted(shot.declared):
            shot.books[agent_type] = await self._books(agent_type)
        streams = [name for name in sorted(shot.names) if name.startswith(("topic:", "inbox:"))]
        for name in streams:
            if shot.of_type(name, "stream"):
                shot.groups[name] = await self._groups(name)
        return shot

    async def _command(self, name: str, suffix: str, *arguments: Any) -> Any:
        return await self._transport.admin.command(name, self._transport.keys.of(suffix), *arguments)

    async def _mapping(self, suffix: str) -> dict[str, str]:
        if not self._snapshot.of_type(suffix, "hash"):
            return {}
        flat = texts(await self._command("HGETALL", suffix))
        return dict(zip(flat[::2], flat[1::2], strict=True))

    async def _list(self, suffix: str) -> list[str]:
        if not self._snapshot.of_type(suffix, "list"):
            return []
        return texts(await self._command("LRANGE", suffix, 0, -1))

    async def _members(self, suffix: str) -> list[str]:
        if not self._snapshot.of_type(suffix, "zset"):
            return []
        return texts(await self._command("ZRANGE", suffix, 0, -1))

    async def _read_names(self) -> None:
        shot = self._snapshot
        names = await self._transport.names_after(self._transport.keys.prefix)
        shot.names = {name for name in names if not name.startswith(tuple(OF_AGENTS))}
        shot.logs = _logs(names)
        # Their types are not asked one by one: there are many of them.
        for beginning, right in OF_AGENTS.items():
            for kind in set(TYPES) - {right}:
                found = await self._transport.names_after(self._transport.keys.of(beginning), kind)
                shot.names |= {beginning + name for name in found}
        ordered = sorted(shot.names)
        answers = await each(ordered, lambda name: self._command("TYPE", name))
        shot.types = {name: text(answer) for name, answer in zip(ordered, answers, strict=True)}

    async def _read_stray(self) -> None:
        """The names are of a moment ago: a message may have left since, or its timer have come."""
        shot = self._snapshot
        for name in sorted(shot.names):
            member = f"m|{name.removeprefix('timer:')}"
            if not name.startswith("timer:") or member in shot.timers:
                continue
            # In this order: message and timer go in one call.
            if await self._is_timer(member) or not await self._command("EXISTS", name):
                continue
            shot.stray.add(name)

    async def _is_timer(self, member: str) -> bool:
        kind = text(await self._command("TYPE", "timers"))
        return kind == "zset" and await self._command("ZSCORE", "timers", member) is not None

    async def _read_workers(self) -> None:
        shot = self._snapshot
        seconds, micros = await self._transport.admin.command("TIME")
        shot.now = int(seconds) * 1000 + int(micros) // 1000
        if shot.of_type("workers", "zset"):
            flat = texts(await self._command("ZRANGE", "workers", 0, -1, "WITHSCORES"))
            shot.leases = {flat[i]: time_of(flat[i + 1]) for i in range(0, len(flat), 2)}
        owners = [name.partition(":")[2] for name in shot.names if name.startswith(("own:", "worker:"))]
        for worker in {*owners, *shot.leases}:
            shot.own[worker] = await self._mapping(f"own:{worker}")

    async def _books(self, agent_type: str) -> Books:
        shot, books = self._snapshot, Books()
        if shot.of_type(f"streams:{agent_type}", "set"):
            books.streams = set(texts(await self._command("SMEMBERS", f"streams:{agent_type}")))
        books.busy = await self._mapping(f"busy:{agent_type}")
        parked = await self._mapping(f"parked:{agent_type}")
        books.parked = {
            key: int(count) if count.lstrip("-").isdecimal() else 0 for key, count in parked.items()
        }
        prefix = f"wait:{agent_type}:"
        keys = [name[len(prefix) :] for name in sorted(shot.names) if name.startswith(prefix)]
        refs = await each(keys, lambda key: self._list(prefix + key))
        books.wait = dict(zip(keys, refs, strict=True))
        books.ready = {*await self._list(f"ready:{agent_type}"), *await self._list(f"suspects:{agent_type}")}
        if self._is_paused:
            books.aside = set(await self._mapping(f"shelved:{agent_type}"))
        newer = await self._members(f"newer:{agent_type}")
        books.aside |= {member.partition("|")[2] for member in newer}
        books.suspended = set(await self._mapping(f"suspended:{agent_type}"))
        books.early = await self._members(f"early:{agent_type}")
        books.tries = list(await self._mapping(f"tries:{agent_type}"))
        return books

    async def _groups(self, suffix: str) -> list[ReaderGroup]:
        try:
            names = await self._names_in("GROUPS", suffix)
        except CommandError:
            if await self._command("EXISTS", suffix):
                raise
            return []  # deleted a moment ago
        return [group for name in names if (group := await self._group(suffix, name)) is not None]

    async def _group(self, suffix: str, name: str, tries: int = 3) -> ReaderGroup | None:
        try:
            consumers = await self._names_in("CONSUMERS", suffix, name)
            return ReaderGroup(name, consumers, await self._pending(suffix, name))
        except CommandError:
            if not await self._command("EXISTS", suffix) or name not in await self._names_in(
                "GROUPS", suffix
            ):
                return None  # destroyed a moment ago
            if tries == 1:
                raise
            # A worker found it destroyed, and made it again between the two looks: look once more.
            return await self._group(suffix, name, tries - 1)

    async def _names_in(self, what: str, suffix: str, *group: str) -> list[str]:
        key = self._transport.keys.of(suffix)
        found = await self._transport.admin.command("XINFO", what, key, *group)
        return [text(flat[1]) for flat in found]

    async def _pending(self, suffix: str, group: str) -> list[str]:
        ids: list[str] = []
        start = "-"
        while len(ids) < MOST_PENDING:
            page = await self._command("XPENDING", suffix, group, start, "+", PAGE)
            ids += [text(entry[0]) for entry in page]
            if len(page) < PAGE:
                break
            start = f"({ids[-1]}"
        return ids


def _logs(names: Iterable[str]) -> set[tuple[str, str, str]]:
    found: set[tuple[str, str, str]] = set()
    for name in names:
        if name.startswith("log:"):
            agent_type, _, rest = name.removeprefix("log:").partition(":")
            key, _, log = rest.rpartition(":")
            found.add((agent_type, key, log))
    types = {agent_type for agent_type, _, _ in found}
    for name in names:
        agent_type, _, key = name.removeprefix("state:").partition(":")
        if name.startswith("state:") and agent_type in types:
            found.add((agent_type, key, ""))
    return found


def text(value: bytes | str) -> str:
    """A value from the server as text; one that was added by hand may not be UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def texts(values: Sequence[bytes | str]) -> list[str]:
    """The same for many."""
    return [text(value) for value in values]
