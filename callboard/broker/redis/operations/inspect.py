"""How a namespace stands: agent types, workers, topics, what waits and who holds it. Reads only.

Everything here is a plain value of `views`; reading the streams themselves is in `entries`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from callboard.broker.outages import error_in
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import topic as topic_suffix

from .backlog import held_by, in_hand, oldest, outstanding, running_of
from .entries import StreamEntry, fields_of, follow, recent
from .numbers import moment, number, time_of
from .outages import outages
from .paging import pages
from .views import (
    AgentTypeView,
    BlockedView,
    GroupView,
    HeldEntry,
    Outage,
    Overview,
    ParkedEntry,
    Pause,
    Timer,
    TopicView,
    Totals,
    Waiting,
    WorkerView,
)

__all__ = [
    "AgentTypeView",
    "GroupView",
    "HeldEntry",
    "Outage",
    "Overview",
    "ParkedEntry",
    "Pause",
    "StreamEntry",
    "Timer",
    "TopicView",
    "Totals",
    "Waiting",
    "WorkerView",
    "follow",
    "has_worker",
    "held_by",
    "overview",
    "paused",
    "recent",
    "timers",
    "types_with_worker",
    "waiting",
]

AT_ONCE = 100  # streams measured in one call
PARKED_AT_ONCE = 1000  # parked entries in one answer
TIMERS_AT_ONCE = 1000  # timers in one answer
STREAMS = 12  # place of the streams among the facts of a type
SUMS = (
    "running",
    "held",
    "parked",
    "backing_off",
    "suspended",
    "done",
    "retried",
    "dead",
    "died",
    "released",
    "reaped",
)


async def overview(transport: RedisTransport, *, ages: bool = False) -> Overview:
    """The whole namespace at one moment; how far the groups are is measured right after it.

    What waits is what the streams say: entries that a type's groups were not given, and those that they were given and
    that are not acknowledged, less those that handlers run.

    Args:
        transport: where.
        ages: says also since when the oldest message of each type waits, which takes a few more calls.

    Returns:
        A view of 30,000 topics takes hundreds of calls, none of them long.
    """
    at, timer_count, due, types, workers = await transport.admin.run("census", ())
    topics, pauses = await pages(transport, "HSCAN", "topics"), await pages(transport, "HSCAN", "paused")
    subscribers = {name: tuple(_text(value).split()) for name, value in fields_of(topics).items()}
    leaving = fields_of(await pages(transport, "HSCAN", "leaving"))
    types = [await _counted(transport, facts) for facts in types]
    suffixes = {_text(suffix) for facts in types for suffix in facts[STREAMS]}
    suffixes.update(leaving, map(topic_suffix, subscribers))
    streams = await _measure(transport, sorted(suffixes))
    worker_views = sorted((_worker(facts, int(at)) for facts in workers), key=lambda view: view.name)
    running = await in_hand(transport, worker_views) if ages else []
    type_views: list[AgentTypeView] = []
    for facts in sorted(types, key=lambda facts: _text(facts[0])):
        groups = _groups_of(facts, streams, leaving)
        view = _agent_type(facts, groups, worker_views)
        if ages:
            since = await oldest(transport, view.type, groups, running)
            view = replace(view, oldest=since)
        type_views.append(view)
    totals = _totals(type_views)
    return Overview(
        namespace=transport.keys.namespace,
        at=int(at),
        types=tuple(type_views),
        workers=tuple(worker_views),
        topics=tuple(
            _topic(name, subscribers[name], streams[topic_suffix(name)]) for name in sorted(subscribers)
        ),
        timers=timer_count,
        next_due=time_of(due) if due else None,
        totals=totals,
        paused=paused(pauses),
        outages=await outages(transport, [view.type for view in type_views if view.retried]),
        # Of the timers, the others are those of agents that back off.
        delayed=max(0, timer_count - totals.backing_off),
    )


def _groups_of(
    facts: Sequence[Any], streams: Mapping[str, _Measured], leaving: Mapping[str, bytes]
) -> dict[str, GroupView]:
    """The groups of a type by stream, also where it has ended its subscription and has still something in hand."""
    name = _text(facts[0])
    suffixes = {_text(suffix) for suffix in facts[STREAMS]}
    suffixes.update(suffix for suffix, types in leaving.items() if name in _text(types).split())
    return {suffix: streams[suffix].groups[name] for suffix in suffixes if name in streams[suffix].groups}


async def _counted(transport: RedisTransport, facts: Sequence[Any]) -> list[Any]:
    """The facts of a type with its streams at the end, and with what was too much to be counted in one call."""
    name, settings, parked, resets, held, waits, *rest = facts
    of_type = _text(name)
    if held < 0:
        busy = (await pages(transport, "HSCAN", f"busy:{of_type}"))[1::2]
        shelved = await transport.admin.command("HLEN", transport.keys.of(f"shelved:{of_type}"))
        held = sum(worker != b"" for worker in busy)
        suspended = rest[-1]
        waits = len(busy) - held - shelved - suspended
        parked = sum(
            number(count) or 0 for count in (await pages(transport, "HSCAN", f"parked:{of_type}"))[1::2]
        )
    streams = await pages(transport, "SSCAN", f"streams:{of_type}")
    return [name, settings, parked, resets, held, waits, *rest, streams]


async def has_worker(transport: RedisTransport, agent_type: str) -> bool:
    """Whether a living worker runs an agent type."""
    return agent_type in await types_with_worker(transport)


async def types_with_worker(transport: RedisTransport) -> frozenset[str]:
    """The agent types that living workers run."""
    admin, of = transport.admin, transport.keys.of
    found: set[str] = set()
    for worker in await admin.command("ZRANGE", of("workers"), 0, -1):
        types = await admin.command("HGET", of(f"worker:{_text(worker)}"), "types")
        found.update(_text(types or b"").split())
    return frozenset(found)


def paused(flat: Sequence[bytes]) -> tuple[Pause, ...]:
    """Everything that is paused, the longest first, from the fields and values of the hash `paused`."""
    found = []
    for target, line in fields_of(flat).items():
        kind, _, name = target.partition(" ")
        since, _, by = _text(line).partition(" ")
        found.append(Pause(kind=kind, name=name, since=moment(since), by=by))
    return tuple(sorted(found, key=lambda pause: pause.since or 0))


class _Measured:
    """One stream: its length, its last id, and its groups by agent type."""

    def __init__(self, raw: Sequence[Any]) -> None:
        _, self.length, last_id, flat = raw
        self.last_id: str = _text(last_id)
        views = (_group(flat[i : i + 6]) for i in range(0, len(flat), 6))
        self.groups = {view.type: view for view in views}


def _group(raw: Sequence[Any]) -> GroupView:
    name, pending, position, unread, first_unread, first_pending = raw
    return GroupView(
        type=_text(name),
        pending=pending,
        position=_text(position),
        unread=None if unread < 0 else unread,
        first_unread=_text(first_unread),
        first_pending=_text(first_pending),
    )


async def _measure(transport: RedisTransport, suffixes: Sequence[str]) -> dict[str, _Measured]:
    measured: dict[str, _Measured] = {}
    for start in range(0, len(suffixes), AT_ONCE):
        for raw in await transport.admin.run("measure", suffixes[start : start + AT_ONCE]):
            measured[_text(raw[0])] = _Measured(raw)
    return measured


def _sum(numbers: Iterable[int | None]) -> int | None:
    """The sum, or None as soon as one number is not known."""
    total = 0
    for one in numbers:
        if one is None:
            return None
        total += one
    return total


def _agent_type(
    facts: Sequence[Any], groups: Mapping[str, GroupView], workers: Sequence[WorkerView]
) -> AgentTypeView:
    name = _text(facts[0])
    parked, resets, held, waits, ready, suspects, letters = facts[2:9]
    newer, suspended = facts[10:12]
    stats = {field: number(value) or 0 for field, value in fields_of(facts[9]).items()}
    unfinished = outstanding(groups)
    # A heartbeat is up to a second old: what has ended since does not run.
    running = running_of(workers, name)
    if unfinished is not None:
        unfinished += resets
        running = min(running, unfinished)
    return AgentTypeView(
        type=name,
        groups=groups,
        waiting=None if unfinished is None else unfinished - running,
        running=running,
        held=held,
        parked=parked,
        backing_off=max(0, waits - ready - suspects - newer),
        suspended=suspended,
        done=stats.get("done", 0),
        retried=stats.get("retried", 0),
        dead=letters,
        died=stats.get("dead", 0),
        released=stats.get("released", 0),
        reaped=stats.get("reaped", 0),
        workers=sum(name in worker.types for worker in workers),
        streams=tuple(sorted(_text(suffix) for suffix in facts[STREAMS])),
    )


def _worker(facts: Sequence[Any], now: int) -> WorkerView:
    name, lease_end, flat, held = facts
    fields = {field: _text(value) for field, value in fields_of(flat).items()}
    worker: str = _text(name)
    host, pid, _ = f"{worker}::".split(":", 2)
    return WorkerView(
        name=worker,
        host=fields.get("host", host),
        pid=number(fields.get("pid")) or number(pid),
        types=tuple(fields.get("types", "").split()),
        lease_ms_left=time_of(lease_end) - now,
        held=held,
        running=number(fields.get("running", "0")),
        started=moment(fields.get("started")),
        blocked=_blocked(fields.get("blocked", "")),
        runs=_runs(fields.get("runs", "")),
    )


def _blocked(text: str) -> BlockedView | None:
    found = re.fullmatch(r"(\d+) (\d+\.\d+) (.*)", text, re.ASCII)
    at = moment(found[1]) if found else None
    return BlockedView(at=at, seconds=float(found[2]), what=found[3]) if found and at is not None else None


def _runs(words: str) -> dict[str, int]:
    listed = words.split()
    return {name: number(count) or 0 for name, count in zip(listed[::2], listed[1::2], strict=False)}


def _topic(name: str, subscribers: tuple[str, ...], measured: _Measured) -> TopicView:
    groups = tuple(measured.groups[group] for group in sorted(measured.groups))
    return TopicView(
        type=name, length=measured.length, last_id=measured.last_id, subscribers=subscribers, groups=groups
    )


def _totals(types: Sequence[AgentTypeView]) -> Totals:
    sums = {name: sum(getattr(view, name) for view in types) for name in SUMS}
    return Totals(waiting=_sum(view.waiting for view in types), **sums)


async def waiting(transport: RedisTransport, agent_type: str, key: str, n: int | None = None) -> Waiting:
    """The entries parked behind one agent, the worker that runs it, and when it goes on if it backs off.

    Entries that no worker has read yet are not listed here: they belong to their streams, see `overview`.

    Args:
        transport: where.
        agent_type: its type.
        key: its key.
        n: how many entries at most; None: all.
    """
    admin, of = transport.admin, transport.keys.of
    holder = await admin.command("HGET", of(f"busy:{agent_type}"), key)
    due = await admin.command("ZSCORE", of("timers"), f"k|{agent_type}|{key}")
    entries: list[ParkedEntry] = []
    while n is None or len(entries) < n:
        last = len(entries) + (PARKED_AT_ONCE if n is None else min(n - len(entries), PARKED_AT_ONCE)) - 1
        refs = await admin.command("LRANGE", of(f"wait:{agent_type}:{key}"), len(entries), last)
        entries += await attempts_at(transport, agent_type, refs)
        if len(refs) < PARKED_AT_ONCE:
            break
    return Waiting(
        type=agent_type,
        key=key,
        holder=_text(holder) if holder else None,
        resumes=None if due is None else time_of(due),
        entries=tuple(entries),
    )


async def attempts_at(transport: RedisTransport, agent_type: str, refs: Sequence[bytes]) -> list[ParkedEntry]:
    """Entries by their references, with what is known of attempts at them."""
    tries = (
        await transport.admin.command("HMGET", transport.keys.of(f"tries:{agent_type}"), *refs)
        if refs
        else []
    )
    return [_parked(ref, tried) for ref, tried in zip(refs, tries, strict=True)]


def _parked(ref: bytes, tried: bytes | None) -> ParkedEntry:
    stream, _, entry = _text(ref).rpartition(" ")
    found = _TRIED.fullmatch((tried or b"").decode(errors="replace"))
    attempts, deaths, reason = found.groups() if found else ("0", "0", "")
    return ParkedEntry(
        stream=stream,
        entry=entry,
        attempts=number(attempts) or 0,
        deaths=number(deaths) or 0,
        reason=error_in(reason) or reason,
    )


_TRIED = re.compile(r"(\d+) \d+ (\d+) (.*)", re.DOTALL)


async def timers(transport: RedisTransport, n: int = 20) -> tuple[Timer, ...]:
    """The next `n` messages and agents that are due later, the nearest first."""
    found: list[Timer] = []
    while len(found) < n:
        last = min(n, len(found) + TIMERS_AT_ONCE) - 1
        flat = await transport.admin.command(
            "ZRANGE", transport.keys.of("timers"), len(found), last, "WITHSCORES"
        )
        named = [(_text(flat[i]), time_of(flat[i + 1])) for i in range(0, len(flat), 2)]
        found += await asyncio.gather(*[_timer(transport, name, due) for name, due in named])
        if len(named) < TIMERS_AT_ONCE:
            break
    return tuple(found)


async def _timer(transport: RedisTransport, timer: str, due: int) -> Timer:
    kind, _, name = timer.partition("|")
    if kind == "k":
        agent = name.replace("|", "/", 1)
        return Timer(due=due, stream=None, message_type="", message_id="", agent=agent)
    suffix = transport.keys.of(f"timer:{name}")
    values = await transport.admin.command("HMGET", suffix, "stream", "type", "id", "key")
    stream, message_type, message_id, key = (_text(value) if value else "" for value in values)
    return Timer(due=due, stream=stream, message_type=message_type, message_id=message_id, agent=key)


def _text(value: bytes) -> str:
    """A name; what a person has added by hand may be any bytes."""
    return value.decode(errors="replace")
