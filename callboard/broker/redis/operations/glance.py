"""A glance at a namespace: what `callboard status` shows, by reads that are short and few, however much there is.

`inspect.overview` looks at everything, which takes a server 0.5 s where there are 10,000 topics. A glance goes as far as
its limits, and says what it left out: numbers of a type that it counted in part are at least so much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from callboard.broker.redis.client.connection import scan
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import TOPIC, topic as topic_suffix

from .entries import fields_of
from .inspect import (
    Measured,
    begun,
    held_by,
    is_entry_id,
    measured,
    number,
    order_of,
    outages,
    paused,
    running_of,
    time_of,
    topic_view,
    totals_of,
    worker_view,
)
from .views import AgentTypeView, GroupView, HeldEntry, LeftOut, Overview, Pause, TopicView, WorkerView

TYPES: Final = 100
WORKERS: Final = 500
TOPICS: Final = 50
PAUSES: Final = 500
SHOWN_STREAMS: Final = 50  # of a type
# Of two numbers the first is of all types together, where the second is not more for each.
FRESH, LEAST_FRESH = 1000, 100  # streams that may hold something unread
FRESH_AT_ONCE: Final = 32  # in one call
STREAMS, LEAST_STREAMS = 100, 10  # those of them with something unread that are measured
GROUPS_AT_ONCE: Final = 5  # of the streams that one call measures
PARKED, LEAST_PARKED = 200, 50  # agents with something parked that are looked at
HELD: Final = 5000  # entries in the hands of workers
PAGE: Final = 200  # fields of a hash, or members of a set, in one command
FIELDS: Final = ("host", "pid", "types", "started", "running", "runs", "blocked")  # of a worker


async def glance(transport: RedisTransport, *, ages: bool = False) -> Overview:
    """The namespace as far as a glance sees it. No call takes the server a millisecond.

    All is there, and exact, with up to 100 agent types, 500 workers, 500 pauses, 50 topics, 10 streams of each type with
    something unread (or 100 of all, while not more than 1,000 may have something), 50 agents of each type with something
    parked (or 200 of all), and 5,000 messages that workers hold. `left_out` says what is not there; of a type with `counted`
    false there is at least as much as its view says. Where a group is in the middle of a stream, with more than 20 entries
    on both sides of it, what is unread is what the server says: after a crash or a failover of it this may be too much.

    Args:
        transport: where.
        ages: says also since when the oldest message of each type waits.
    """
    seconds, micros = await transport.admin.command("TIME")
    now = int(seconds) * 1000 + int(micros) // 1000
    known, more_types = await _some(transport, "types", TYPES)
    names = sorted(known)
    # First what is unread, then what workers hold: what is given out in between counts twice rather than not at all.
    streams = await _Streams.look(transport, names)
    counts = dict(
        zip(names, await asyncio.gather(*(_counts(transport, name) for name in names)), strict=True)
    )
    parked = await _parked_of(transport, counts, ages=ages)
    hands, more_workers = await _hands(transport, now)
    types = [_TypeFacts(name, counts[name], parked[name], streams, hands) for name in names]
    shown = await asyncio.gather(*(_shown_streams(transport, name) for name in names))
    views = tuple(one.view(of, ages=ages) for one, of in zip(types, shown, strict=True))
    timers, due = await _timers(transport)
    pauses, more_pauses = await _pauses(transport)
    totals = totals_of(views)
    return Overview(
        namespace=transport.keys.namespace,
        at=now,
        types=views,
        workers=hands.workers,
        topics=streams.topics,
        timers=timers,
        next_due=due,
        totals=totals,
        paused=pauses,
        outages=await outages(transport, [view.type for view in views if view.retried], pages=1),
        delayed=max(0, timers - totals.backing_off),
        left_out=LeftOut(
            types=more_types,
            workers=more_workers,
            topics=streams.more_topics,
            streams=sum(max(0, counts[view.type].streams - len(view.streams)) for view in views),
            pauses=more_pauses,
        ),
    )


async def _some(transport: RedisTransport, suffix: str, most: int) -> tuple[dict[str, bytes], int]:
    """So many fields of a hash with their values, and how many more there are."""
    key = transport.keys.of(suffix)
    total: int = await transport.admin.command("HLEN", key)
    found: dict[str, bytes] = {}
    async for page in scan(transport.admin, "HSCAN", key, page=PAGE):
        found |= fields_of(page)
        if len(found) >= most:
            break
    first = dict(list(found.items())[:most])
    return first, max(0, total - len(first))


async def _shown_streams(transport: RedisTransport, agent_type: str) -> tuple[str, ...]:
    """Suffixes of streams that the type reads: all of them, or some."""
    key = transport.keys.of(f"streams:{agent_type}")
    _, found = await transport.admin.command("SSCAN", key, 0, "COUNT", SHOWN_STREAMS)
    return tuple(sorted(_text(suffix) for suffix in found[:SHOWN_STREAMS]))


async def _timers(transport: RedisTransport) -> tuple[int, int | None]:
    """How many there are, and when the first one is due, server ms."""
    key = transport.keys.of("timers")
    first = await transport.admin.command("ZRANGE", key, 0, 0, "WITHSCORES")
    return await transport.admin.command("ZCARD", key), time_of(first[1]) if first else None


async def _pauses(transport: RedisTransport) -> tuple[tuple[Pause, ...], int]:
    found, more = await _some(transport, "paused", PAUSES)
    return paused(found), more


# Streams


@dataclass(frozen=True, slots=True)
class _Streams:
    """The streams with something unread, and some topics.

    Attributes:
        fresh: by agent type.
        measured: how far groups are in some of them.
        topics: busy ones first found, by name.
        more_topics: how many more there are.
    """

    fresh: Mapping[str, _Fresh]
    measured: Mapping[str, Measured]
    topics: tuple[TopicView, ...]
    more_topics: int

    @classmethod
    async def look(cls, transport: RedisTransport, types: Sequence[str]) -> _Streams:
        found = await asyncio.gather(*(_fresh(transport, name, len(types)) for name in types))
        fresh = dict(zip(types, found, strict=True))
        most = max(LEAST_STREAMS, STREAMS // max(1, len(types)))
        busy = [*dict.fromkeys(suffix for one in found for suffix in [*one.first][:most])]
        lines, total = await _topics(transport, busy)
        wanted = dict.fromkeys([*busy, *map(topic_suffix, lines)])
        streams = await measured(transport, _batches(wanted, lines), "short")
        topics = tuple(
            topic_view(name, lines[name], streams[topic_suffix(name)]) for name in sorted([*lines][:TOPICS])
        )
        return cls(fresh, streams, topics, max(0, total - len(topics)))

    def groups_of(self, agent_type: str) -> dict[str, GroupView]:
        """The groups of a type in the streams that were measured for it."""
        return {
            suffix: self.measured[suffix].groups[agent_type]
            for suffix in self.fresh[agent_type].first
            if suffix in self.measured and agent_type in self.measured[suffix].groups
        }

    def unmeasured(self, agent_type: str) -> int:
        """Streams of a type with something unread that were not measured."""
        return sum(suffix not in self.measured for suffix in self.fresh[agent_type].first)


@dataclass(frozen=True, slots=True)
class _Fresh:
    """The streams of a type that have something unread.

    Attributes:
        first: id of the first unread entry by suffix, the oldest first.
        is_whole: all of them are there.
    """

    first: Mapping[str, str]
    is_whole: bool


async def _fresh(transport: RedisTransport, agent_type: str, types: int) -> _Fresh:
    key, most = transport.keys.of(f"fresh:{agent_type}"), max(LEAST_FRESH, FRESH // types)
    suffixes = await transport.admin.command("ZRANGE", key, 0, most)
    parts = [suffixes[i : i + FRESH_AT_ONCE] for i in range(0, min(most, len(suffixes)), FRESH_AT_ONCE)]
    found = await asyncio.gather(
        *(transport.admin.run("pulse", ("unread", agent_type, *part)) for part in parts)
    )
    ids = {_text(flat[i]): _text(flat[i + 1]) for flat in found for i in range(0, len(flat), 2)}
    return _Fresh(dict(sorted(ids.items(), key=lambda one: order_of(one[1]))), len(suffixes) <= most)


async def _topics(transport: RedisTransport, busy: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], int]:
    """Topics with their subscribers: those of busy streams, then others; and how many there are in all."""
    names = [suffix.removeprefix(TOPIC) for suffix in busy if suffix.startswith(TOPIC)]
    lines: dict[str, tuple[str, ...]] = {}
    if names:
        values = await transport.admin.command("HMGET", transport.keys.of("topics"), *names)
        pairs = zip(names, values, strict=True)
        lines = {name: _words(line) for name, line in pairs if line is not None}
    others, more = await _some(transport, "topics", TOPICS)
    for name, line in others.items():
        if len(lines) >= TOPICS:
            break
        lines.setdefault(name, _words(line))
    return lines, len(others) + more


def _batches(suffixes: Iterable[str], lines: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Streams that are measured together, so many that no call takes long."""
    batch: list[str] = []
    weight = 0
    for suffix in suffixes:
        own = max(1, len(lines.get(suffix.removeprefix(TOPIC), ())))
        if batch and weight + own > GROUPS_AT_ONCE:
            yield batch
            batch, weight = [], 0
        batch.append(suffix)
        weight += own
    if batch:
        yield batch


# Books of a type


class _Counts(NamedTuple):
    """Lengths of a type's books, as lua/pulse.lua gives them."""

    stats: Sequence[bytes]
    dead: int
    busy: int
    held: int
    shelved: int
    suspended: int
    ready: int
    suspects: int
    newer: int
    parked: int
    early: int
    first_early: bytes
    streams: int


async def _counts(transport: RedisTransport, agent_type: str) -> _Counts:
    return _Counts(*await transport.admin.run("pulse", ("counts", agent_type)))


@dataclass(frozen=True, slots=True)
class _Parked:
    """What is parked behind agents of a type.

    Attributes:
        entries: how many; at least, unless `is_whole`.
        first: ids of the first that wait, of each agent that was looked at.
        is_whole: all agents were looked at.
    """

    entries: int = 0
    first: tuple[str, ...] = ()
    is_whole: bool = True


async def _parked_of(
    transport: RedisTransport, counts: Mapping[str, _Counts], *, ages: bool
) -> dict[str, _Parked]:
    some = [name for name, one in counts.items() if one.parked]
    most = max(LEAST_PARKED, PARKED // max(1, len(some)))
    found = await asyncio.gather(*(_parked(transport, name, most, ages=ages) for name in some))
    return {**dict.fromkeys(counts, _Parked()), **dict(zip(some, found, strict=True))}


async def _parked(transport: RedisTransport, agent_type: str, most: int, *, ages: bool) -> _Parked:
    numbers, more = await _some(transport, f"parked:{agent_type}", most)
    entries = sum(number(value) or 0 for value in numbers.values())
    first = await _first_of_each(transport, agent_type, [*numbers]) if ages and numbers else ()
    # Behind each agent that was not looked at there is an entry at least.
    return _Parked(entries + more, tuple(first), not more)


async def _first_of_each(transport: RedisTransport, agent_type: str, keys: Sequence[str]) -> list[str]:
    """The id of the first entry that waits behind each agent."""
    admin, of = transport.admin, transport.keys.of
    asking, *waits = await asyncio.gather(
        admin.command("HMGET", of(f"suspended:{agent_type}"), *keys),
        *(admin.command("LRANGE", of(f"wait:{agent_type}:{key}"), 0, 2) for key in keys),
    )
    found: list[str] = []
    for is_asking, refs in zip(asking, waits, strict=True):
        # The first message of an agent that waits for an answer was begun; a reset goes before what came earlier.
        ours = [_text(ref) for ref in refs[1 if is_asking else 0 :] if not ref.startswith(b"urgent:")]
        found += [ref.rpartition(" ")[2] for ref in ours[:1]]
    return found


# Workers


@dataclass(frozen=True, slots=True)
class _Hands:
    """Workers and what they hold.

    Attributes:
        workers: by name.
        held: what they hold, as far as it was looked at.
        begun: streams and ids of the entries that handlers run.
        unknown: agent types of which more is held than was looked at.
    """

    workers: tuple[WorkerView, ...]
    held: tuple[HeldEntry, ...]
    begun: frozenset[HeldEntry]
    unknown: frozenset[str]


async def _hands(transport: RedisTransport, now: int) -> tuple[_Hands, int]:
    """Also how many workers were left out."""
    admin, key = transport.admin, transport.keys.of("workers")
    leases = await admin.command("ZRANGE", key, 0, WORKERS - 1, "WITHSCORES")
    total: int = await admin.command("ZCARD", key)
    pairs = zip(leases[::2], leases[1::2], strict=True)
    workers = await asyncio.gather(*(_worker(transport, name, lease_end, now) for name, lease_end in pairs))
    workers.sort(key=lambda one: one.name)
    left, unknown = HELD, set[str]()
    held: list[HeldEntry] = []
    running: list[HeldEntry] = []
    for worker in workers:
        if worker.held > left:
            unknown.update(worker.types)
        elif worker.held:
            own = await held_by(transport, worker.name)
            running += begun(worker, own)
            held += own
            left -= worker.held
    more = max(0, total - len(workers))
    return _Hands(tuple(workers), tuple(held), frozenset(running), frozenset(unknown)), more


async def _worker(transport: RedisTransport, name: bytes, lease_end: bytes, now: int) -> WorkerView:
    worker = _text(name)
    values = await transport.admin.command("HMGET", transport.keys.of(f"worker:{worker}"), *FIELDS)
    known = {field: value for field, value in zip(FIELDS, values, strict=True) if value is not None}
    held: int = await transport.admin.command("HLEN", transport.keys.of(f"own:{worker}"))
    return worker_view(name, lease_end, known, held, now)


# A type


@dataclass(frozen=True, slots=True)
class _TypeFacts:
    """All that was seen of one agent type."""

    name: str
    counts: _Counts
    parked: _Parked
    streams: _Streams
    hands: _Hands

    def view(self, shown: tuple[str, ...], *, ages: bool) -> AgentTypeView:
        """The type, with some of its streams."""
        counts, groups = self.counts, self.streams.groups_of(self.name)
        stats = {field: number(value) or 0 for field, value in fields_of(counts.stats).items()}
        waiting, running = self._unfinished(groups)
        agents = self._agents_held
        backing_off = counts.busy - agents - counts.shelved - counts.suspended
        return AgentTypeView(
            type=self.name,
            groups=groups,
            waiting=waiting,
            running=running,
            held=agents,
            parked=self.parked.entries,
            backing_off=max(0, backing_off - counts.ready - counts.suspects - counts.newer),
            suspended=counts.suspended,
            done=stats.get("done", 0),
            retried=stats.get("retried", 0),
            dead=counts.dead,
            died=stats.get("dead", 0),
            released=stats.get("released", 0),
            reaped=stats.get("reaped", 0),
            workers=sum(self.name in worker.types for worker in self.hands.workers),
            streams=shown,
            oldest=self._oldest(groups) if ages else None,
            counted=self.streams.fresh[self.name].is_whole
            and not self.streams.unmeasured(self.name)
            and self.parked.is_whole
            and self.name not in self.hands.unknown,
        )

    def _unfinished(self, groups: Mapping[str, GroupView]) -> tuple[int | None, int]:
        """What waits (None: the server can't say), and what runs."""
        running = running_of(self.hands.workers, self.name)
        unread = self.streams.unmeasured(self.name)  # in each of these there is an entry at least
        for group in groups.values():
            if group.unread is None:
                return None, running
            unread += group.unread
        given = len([*self._in_hand]) + self.counts.early + self.parked.entries
        # The message of a handler that asked somebody was begun, and no worker can go on with it.
        unfinished = max(0, unread + given - self.counts.suspended)
        running = min(running, unfinished)
        return unfinished - running, running

    @property
    def _in_hand(self) -> Iterator[HeldEntry]:
        """What workers hold; a request to an agent that waits is no entry of a stream that groups read."""
        return (
            one for one in self.hands.held if one.type == self.name and not one.stream.startswith("nested:")
        )

    @property
    def _agents_held(self) -> int:
        """Agents that workers hold."""
        if self.counts.held >= 0:
            return self.counts.held
        return len({one.key for one in self.hands.held if one.type == self.name})

    def _oldest(self, groups: Mapping[str, GroupView]) -> int | None:
        """When the message that waits longest was published, or was due, server ms."""
        given = (
            one.entry
            for one in self._in_hand
            if one not in self.hands.begun and not one.stream.startswith("urgent:")
        )
        early = _text(self.counts.first_early)
        unread = (
            groups[suffix].first_unread if suffix in groups else first
            for suffix, first in self.streams.fresh[self.name].first.items()
        )
        ids = [order_of(one) for one in (*given, *self.parked.first, early, *unread) if is_entry_id(one)]
        return min(ids)[0] if ids else None


def _text(value: bytes) -> str:
    """A name; what a person has added by hand may be any bytes."""
    return value.decode(errors="replace")


def _words(line: Any) -> tuple[str, ...]:
    return tuple(_text(line).split())
