"""How a namespace stands: agent types, workers, topics, what waits and who holds it. Reads only.

Everything here is a plain value of `views`; reading the streams themselves is in `entries`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import topic as topic_suffix

from .entries import StreamEntry, fields_of, follow, recent
from .views import (
    AgentTypeView,
    BlockedView,
    GroupView,
    HeldEntry,
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
    "held_by",
    "overview",
    "paused",
    "recent",
    "timers",
    "waiting",
]

AT_ONCE = 200  # streams measured in one call
PAGE = 1000  # members of a hash or set in one answer
STREAMS = 10  # place of the streams among the facts of a type
SUMS = (
    "running",
    "parked",
    "backing_off",
    "done",
    "retried",
    "dead",
    "died",
    "released",
    "reaped",
)


async def overview(transport: RedisTransport) -> Overview:
    """The whole namespace at one moment; how far the groups are is measured right after it."""
    at, timer_count, due, types, workers = await transport.admin.run("census", ())
    topics, pauses = await pages(transport, "HSCAN", "topics"), await pages(transport, "HSCAN", "paused")
    subscribers = {name: tuple(value.decode().split()) for name, value in fields_of(topics).items()}
    types = [await _counted(transport, facts) for facts in types]
    suffixes = {suffix.decode() for facts in types for suffix in facts[STREAMS]}
    suffixes.update(topic_suffix(topic) for topic in subscribers)
    streams = await _measure(transport, sorted(suffixes))
    worker_views = sorted((_worker(facts, int(at)) for facts in workers), key=lambda view: view.name)
    type_views = sorted(
        (_agent_type(facts, streams, worker_views) for facts in types), key=lambda view: view.type
    )
    return Overview(
        namespace=transport.keys.namespace,
        at=int(at),
        types=tuple(type_views),
        workers=tuple(worker_views),
        topics=tuple(
            _topic(name, subscribers[name], streams[topic_suffix(name)]) for name in sorted(subscribers)
        ),
        timers=timer_count,
        next_due=int(due) if due else None,
        totals=_totals(type_views),
        paused=paused(pauses),
    )


async def pages(transport: RedisTransport, command: str, suffix: str) -> list[bytes]:
    """A hash (HSCAN: field, value, ...) or a set (SSCAN) of any size, each member once."""
    found: list[bytes] = []
    cursor: bytes | int = 0
    while True:
        cursor, page = await transport.admin.command(
            command, transport.keys.of(suffix), cursor, "COUNT", PAGE
        )
        found += page
        if int(cursor) == 0:
            break
    if command == "SSCAN":
        return list(dict.fromkeys(found))
    return [value for pair in dict(zip(found[::2], found[1::2], strict=True)).items() for value in pair]


async def _counted(transport: RedisTransport, facts: Sequence[Any]) -> list[Any]:
    """The facts of a type with its streams at the end, and with what was too much to be counted in one call."""
    name, settings, parked, early, held, waits, *rest = facts
    of_type = name.decode()
    if held < 0:
        busy = (await pages(transport, "HSCAN", f"busy:{of_type}"))[1::2]
        shelved = await transport.admin.command("HLEN", transport.keys.of(f"shelved:{of_type}"))
        held = sum(worker != b"" for worker in busy)
        waits = len(busy) - held - shelved
        parked = sum(int(count) for count in (await pages(transport, "HSCAN", f"parked:{of_type}"))[1::2])
    streams = await pages(transport, "SSCAN", f"streams:{of_type}")
    return [name, settings, parked, early, held, waits, *rest, streams]


def paused(flat: Sequence[bytes]) -> tuple[Pause, ...]:
    """Everything that is paused, the longest first, from the fields and values of the hash `paused`."""
    found = []
    for target, line in fields_of(flat).items():
        kind, _, name = target.partition(" ")
        since, _, by = line.decode(errors="replace").partition(" ")
        found.append(Pause(kind=kind, name=name, since=int(since), by=by))
    return tuple(sorted(found, key=lambda pause: pause.since))


class _Measured:
    """One stream: its length, its last id, and its groups by agent type."""

    def __init__(self, raw: Sequence[Any]) -> None:
        _, self.length, last_id, flat = raw
        self.last_id: str = last_id.decode()
        views = (_group(flat[i : i + 4]) for i in range(0, len(flat), 4))
        self.groups = {view.type: view for view in views}


def _group(raw: Sequence[Any]) -> GroupView:
    name, pending, position, unread = raw
    return GroupView(
        type=name.decode(), pending=pending, position=position.decode(), unread=None if unread < 0 else unread
    )


async def _measure(transport: RedisTransport, suffixes: Sequence[str]) -> dict[str, _Measured]:
    measured: dict[str, _Measured] = {}
    for start in range(0, len(suffixes), AT_ONCE):
        for raw in await transport.admin.run("measure", suffixes[start : start + AT_ONCE]):
            measured[raw[0].decode()] = _Measured(raw)
    return measured


def _sum(numbers: Iterable[int | None]) -> int | None:
    """The sum, or None as soon as one number is not known."""
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def _agent_type(
    facts: Sequence[Any], streams: Mapping[str, _Measured], workers: Sequence[WorkerView]
) -> AgentTypeView:
    name = facts[0].decode()
    suffixes = sorted(suffix.decode() for suffix in facts[STREAMS])
    parked, early, held, waits, ready, suspects, letters = facts[2:9]
    stats = {field: int(value) for field, value in fields_of(facts[9]).items()}
    groups = (streams[suffix].groups.get(name) for suffix in suffixes)
    unread = _sum(group.unread if group else 0 for group in groups)
    return AgentTypeView(
        type=name,
        queued=None if unread is None else unread + parked + early,
        running=held,
        parked=parked,
        backing_off=max(0, waits - ready - suspects),
        done=stats.get("done", 0),
        retried=stats.get("retried", 0),
        dead=letters,
        died=stats.get("dead", 0),
        released=stats.get("released", 0),
        reaped=stats.get("reaped", 0),
        workers=sum(name in worker.types for worker in workers),
        streams=tuple(suffixes),
    )


def _worker(facts: Sequence[Any], now: int) -> WorkerView:
    name, deadline, flat, held = facts
    fields = {field: value.decode(errors="replace") for field, value in fields_of(flat).items()}
    worker: str = name.decode()
    host, pid, _ = f"{worker}::".split(":", 2)
    return WorkerView(
        name=worker,
        host=fields.get("host", host),
        pid=int(fields.get("pid") or pid or 0),
        types=tuple(fields.get("types", "").split()),
        lease_ms_left=int(deadline) - now,
        held=held,
        running=int(fields.get("running", 0)),
        started=int(fields.get("started", 0)),
        blocked=_blocked(fields.get("blocked", "")),
    )


def _blocked(text: str) -> BlockedView | None:
    found = re.fullmatch(r"(\d+) (\d+\.\d+) (.*)", text)
    return BlockedView(at=int(found[1]), seconds=float(found[2]), what=found[3]) if found else None


def _topic(name: str, subscribers: tuple[str, ...], measured: _Measured) -> TopicView:
    groups = tuple(measured.groups[group] for group in sorted(measured.groups))
    return TopicView(
        type=name, length=measured.length, last_id=measured.last_id, subscribers=subscribers, groups=groups
    )


def _totals(types: Sequence[AgentTypeView]) -> Totals:
    sums = {name: sum(getattr(view, name) for view in types) for name in SUMS}
    return Totals(queued=_sum(view.queued for view in types), **sums)


async def waiting(transport: RedisTransport, agent_type: str, key: str) -> Waiting:
    """The entries parked behind one agent, the worker that runs it, and when it goes on if it backs off.

    Entries that no worker has read yet are not listed here: they belong to their streams, see `overview`.
    """
    admin, of = transport.admin, transport.keys.of
    holder = await admin.command("HGET", of(f"busy:{agent_type}"), key)
    due = await admin.command("ZSCORE", of("timers"), f"k|{agent_type}|{key}")
    refs = await admin.command("LRANGE", of(f"wait:{agent_type}:{key}"), 0, -1)
    tries = await admin.command("HMGET", of(f"tries:{agent_type}"), *refs) if refs else []
    return Waiting(
        type=agent_type,
        key=key,
        holder=holder.decode() if holder else None,
        resumes=None if due is None else int(float(due)),
        entries=tuple(_parked(ref, tried) for ref, tried in zip(refs, tries, strict=True)),
    )


def _parked(ref: bytes, tried: bytes | None) -> ParkedEntry:
    stream, _, entry = ref.decode().rpartition(" ")
    found = _TRIED.fullmatch((tried or b"").decode(errors="replace"))
    attempts, deaths, reason = found.groups() if found else (0, 0, "")
    return ParkedEntry(stream=stream, entry=entry, attempts=int(attempts), deaths=int(deaths), reason=reason)


_TRIED = re.compile(r"(\d+) \d+ (\d+) (.*)", re.DOTALL)


async def held_by(transport: RedisTransport, worker: str) -> tuple[HeldEntry, ...]:
    """The entries that a worker holds, by agent, in order; nothing when there is no such worker."""
    flat = await transport.admin.command("HGETALL", transport.keys.of(f"own:{worker}"))
    held = [_held(flat[i].decode(), flat[i + 1].decode(errors="replace")) for i in range(0, len(flat), 2)]
    return tuple(sorted(held, key=lambda entry: (entry.type, entry.key, _order(entry.entry))))


def _held(field: str, key: str) -> HeldEntry:
    agent_type, stream, entry = field.split(" ", 2)
    return HeldEntry(type=agent_type, key=key, stream=stream, entry=entry)


def _order(entry: str) -> tuple[int, ...]:
    return tuple(int(part) for part in entry.split("-"))


async def timers(transport: RedisTransport, n: int = 20) -> tuple[Timer, ...]:
    """The next `n` messages and agents that are due later, the nearest first."""
    admin, of = transport.admin, transport.keys.of
    flat = await admin.command("ZRANGE", of("timers"), 0, n - 1, "WITHSCORES")
    found: list[Timer] = []
    for i in range(0, len(flat), 2):
        kind, _, name = flat[i].decode(errors="replace").partition("|")
        due = int(float(flat[i + 1]))
        if kind == "k":
            agent = name.replace("|", "/", 1)
            found.append(Timer(due=due, stream=None, message_type="", message_id="", agent=agent))
            continue
        values = await admin.command("HMGET", of(f"timer:{name}"), "stream", "type", "id", "key")
        texts = [value.decode(errors="replace") if value else "" for value in values]
        stream, message_type, message_id, key = texts
        found.append(
            Timer(due=due, stream=stream, message_type=message_type, message_id=message_id, agent=key)
        )
    return tuple(found)
