"""How a namespace stands: agent types, workers, topics, what waits and who holds it. Reads only.

Everything here is a plain value of `views`; reading the streams themselves is in `entries`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from callboard.broker.errors import error_in
from callboard.broker.redis.client.connection import scan
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import topic as topic_suffix

from .entries import fields_of
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

AT_ONCE = 20  # streams measured in one call, which takes the server less than a millisecond
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
    streams = await measured(transport, [sorted(suffixes)])
    worker_views = sorted(
        (
            worker_view(name, lease_end, fields_of(flat), held, int(at))
            for name, lease_end, flat, held in workers
        ),
        key=lambda view: view.name,
    )
    running = await in_hand(transport, worker_views) if ages else []
    type_views: list[AgentTypeView] = []
    for facts in sorted(types, key=lambda facts: _text(facts[0])):
        groups = _groups_of(facts, streams, leaving)
        view = _agent_type(facts, groups, worker_views)
        if ages:
            begun = {(entry.stream, entry.entry) for entry in running if entry.type == view.type}
            begun |= await _asking(transport, view.type) if view.suspended else set()
            since = await oldest(transport, view.type, groups, begun)
            view = replace(view, oldest=since)
        type_views.append(view)
    totals = totals_of(type_views)
    return Overview(
        namespace=transport.keys.namespace,
        at=int(at),
        types=tuple(type_views),
        workers=tuple(worker_views),
        topics=tuple(
            topic_view(name, subscribers[name], streams[topic_suffix(name)]) for name in sorted(subscribers)
        ),
        timers=timer_count,
        next_due=time_of(due) if due else None,
        totals=totals,
        paused=paused(fields_of(pauses)),
        outages=await outages(transport, [view.type for view in type_views if view.retried]),
        # Of the timers, the others are those of agents that back off.
        delayed=max(0, timer_count - totals.backing_off),
    )


def _groups_of(
    facts: Sequence[Any], streams: Mapping[str, Measured], leaving: Mapping[str, bytes]
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


def paused(fields: Mapping[str, bytes]) -> tuple[Pause, ...]:
    """Everything that is paused, the longest first, from the fields of the hash `paused`."""
    found = []
    for target, line in fields.items():
        kind, _, name = target.partition(" ")
        since, _, by = _text(line).partition(" ")
        found.append(Pause(kind=kind, name=name, since=moment(since), by=by))
    return tuple(sorted(found, key=lambda pause: pause.since or 0))


class Measured:
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


async def measured(
    transport: RedisTransport, suffixes: Iterable[Sequence[str]], how: Literal["", "short"] = ""
) -> dict[str, Measured]:
    """Streams by their suffixes.

    Args:
        transport: where.
        suffixes: those that one call may measure together, for each call.
        how: "short": no call counts many entries, so that what the server says of a group counts where it was not asked
            to begin with.
    """
    found: dict[str, Measured] = {}
    for part in suffixes:
        for start in range(0, len(part), AT_ONCE):
            for raw in await transport.admin.run("measure", (how, *part[start : start + AT_ONCE])):
                found[_text(raw[0])] = Measured(raw)
    return found


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
        # The message of a handler that asked somebody was begun, and no worker can go on with it: it waits for a person.
        unfinished = max(0, unfinished + resets - suspended)
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


def worker_view(name: bytes, lease_end: bytes, known: Mapping[str, bytes], held: int, now: int) -> WorkerView:
    """A worker, by what it says of itself."""
    fields = {field: _text(value) for field, value in known.items()}
    worker = _text(name)
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


def topic_view(name: str, subscribers: tuple[str, ...], stream: Measured) -> TopicView:
    """A topic, by its stream."""
    groups = tuple(stream.groups[group] for group in sorted(stream.groups))
    return TopicView(
        type=name, length=stream.length, last_id=stream.last_id, subscribers=subscribers, groups=groups
    )


def totals_of(types: Sequence[AgentTypeView]) -> Totals:
    """The sums over agent types."""
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


_TRIED = re.compile(r"(\d+) \d+ (\d+) (.*)", re.DOTALL)


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


PAGE = 100  # pending entries in one answer

Groups: TypeAlias = Mapping[str, GroupView]
"""The groups of one agent type by the suffixes of their streams."""


def outstanding(groups: Groups) -> int | None:
    """Messages that are published and not handled, those that run included; None: the server can't say."""
    total = 0
    for group in groups.values():
        if group.unread is None:
            return None
        total += group.unread + group.pending
    return total


def running_of(workers: Iterable[WorkerView], agent_type: str) -> int:
    """Messages that handlers of living workers run, as of their last heartbeats."""
    return sum(worker.runs.get(agent_type, 0) for worker in workers if worker.lease_ms_left >= 0)


async def held_by(transport: RedisTransport, worker: str) -> tuple[HeldEntry, ...]:
    """The entries that a worker holds, by agent, in order; nothing when there is no such worker."""
    flat = await pages(transport, "HSCAN", f"own:{worker}")
    texts = [value.decode(errors="replace") for value in flat]
    held = [_held(*pair) for pair in zip(texts[::2], texts[1::2], strict=True) if _names_an_entry(pair[0])]
    return tuple(sorted(held, key=lambda entry: (entry.type, entry.key, order_of(entry.entry))))


def _names_an_entry(field: str) -> bool:
    return field.count(" ") == 2 and is_entry_id(field.rpartition(" ")[2])


def _held(field: str, key: str) -> HeldEntry:
    agent_type, stream, entry = field.split(" ", 2)
    return HeldEntry(type=agent_type, key=key, stream=stream, entry=entry)


def order_of(entry: str) -> tuple[int, ...]:
    """An entry id as numbers, which compare as the ids do."""
    return tuple(int(part) for part in entry.split("-"))


def begun(worker: WorkerView, held: Sequence[HeldEntry]) -> list[HeldEntry]:
    """Which of the entries that a worker holds its handlers run.

    It says how many of each type. A worker begins with the agents that it was given first, and runs the first entry of each.
    """
    found: list[HeldEntry] = []
    for agent_type, number in worker.runs.items() if worker.lease_ms_left >= 0 else ():
        found += first_of_each([entry for entry in held if entry.type == agent_type], number)
    return found


def first_of_each(held: Iterable[HeldEntry], number: int) -> list[HeldEntry]:
    """Of what a worker holds of one type the first entry of each agent: so many of them, those that it was given first."""
    first: dict[str, HeldEntry] = {}
    for entry in held:
        first.setdefault(entry.key, entry)
    return sorted(first.values(), key=lambda entry: order_of(entry.entry))[:number]


async def in_hand(transport: RedisTransport, workers: Iterable[WorkerView]) -> list[HeldEntry]:
    """The entries that handlers run, of all workers."""
    found: list[HeldEntry] = []
    for worker in workers:
        if worker.held:
            found += begun(worker, await held_by(transport, worker.name))
    return found


async def oldest(
    transport: RedisTransport, agent_type: str, groups: Groups, begun: Collection[tuple[str, str]]
) -> int | None:
    """When the message of a type that waits longest was published, or was due, server ms; None: nothing waits.

    Args:
        transport: where.
        agent_type: the type.
        groups: its groups, by stream.
        begun: streams and ids of entries that handlers have begun.
    """
    first = [order_of(group.first_unread) for group in groups.values() if group.first_unread]
    best = min(first, default=None)
    pending = [
        (order_of(group.first_pending), suffix) for suffix, group in groups.items() if group.first_pending
    ]
    for bound, suffix in sorted(pending):
        if best is not None and bound >= best:
            break
        found = await _first_pending(transport, agent_type, suffix, begun)
        if found is not None and (best is None or found < best):
            best = found
    return None if best is None else best[0]


async def _asking(transport: RedisTransport, agent_type: str) -> set[tuple[str, str]]:
    """Streams and ids of the entries whose handlers wait for an answer."""
    found: set[tuple[str, str]] = set()
    cursor = "0"
    while True:
        after, *refs = await transport.admin.run("pulse", ("asking", agent_type, cursor))
        for ref in refs:
            stream, _, entry = _text(ref).rpartition(" ")
            found.add((stream, entry))
        cursor = _text(after)
        if cursor == "0":
            return found


async def _first_pending(
    transport: RedisTransport, agent_type: str, suffix: str, skipped: Collection[tuple[str, str]]
) -> tuple[int, ...] | None:
    """The first entry that was given out and was not begun."""
    start = "-"
    while True:
        found = await transport.admin.command(
            "XPENDING", transport.keys.of(suffix), agent_type, start, "+", PAGE
        )
        for entry, *_ in found:
            if (suffix, entry.decode()) not in skipped:
                return order_of(entry.decode())
        if len(found) < PAGE:
            return None
        start = "(" + found[-1][0].decode()


MOST_PAGES: Final = 5
"""Of tried entries that are looked at for each type: what waits is counted, and a long list need not be."""

_TRIED_BYTES: Final = re.compile(rb"\d+ (\d+) \d+ (.*)", re.DOTALL)


async def outages(
    transport: RedisTransport, types: Sequence[str], pages: int = MOST_PAGES
) -> tuple[Outage, ...]:
    """The outages that messages of these agent types wait for, by type; a type that waits for none is left out.

    Args:
        transport: where.
        types: their names.
        pages: of tried entries that are looked at for each type.
    """
    found = [await _outage(transport, agent_type, pages) for agent_type in types]
    return tuple(one for one in found if one is not None)


async def _outage(transport: RedisTransport, agent_type: str, pages: int) -> Outage | None:
    waiting = list(_waiting(await _tried(transport, agent_type, pages)))
    if not waiting:
        return None
    since, error = min(waiting)
    return Outage(type=agent_type, messages=len(waiting), since=since, error=error)


async def _tried(transport: RedisTransport, agent_type: str, pages: int) -> Iterable[bytes]:
    """Tried entries and what is known of them, each once."""
    found: dict[bytes, bytes] = {}
    looked_at = 0
    async for page in scan(transport.admin, "HSCAN", transport.keys.of(f"tries:{agent_type}")):
        found |= zip(page[::2], page[1::2], strict=True)
        looked_at += 1
        if looked_at == pages:
            break
    return found.values()


def _waiting(lines: Iterable[bytes]) -> Iterable[tuple[int, str]]:
    for line in lines:
        tried = _TRIED_BYTES.fullmatch(line)
        error = error_in(tried[2].decode(errors="replace")) if tried else None
        since = moment(tried[1]) if tried else None
        if since is not None and error is not None:
            yield since, error


async def pages(transport: RedisTransport, command: str, suffix: str, pattern: str = "*") -> list[bytes]:
    """A hash (HSCAN: field, value, ...), a sorted set (ZSCAN: member, score, ...) or a set (SSCAN) of any size.

    Args:
        transport: Where.
        command: The command that reads it.
        suffix: Its Redis key.
        pattern: Of the fields or members, as the server reads patterns.

    Returns:
        Each field or member once.
    """
    parts = scan(transport.admin, command, transport.keys.of(suffix), pattern=pattern)
    found = [value async for part in parts for value in part]
    if command == "SSCAN":
        return list(dict.fromkeys(found))
    return [value for pair in dict(zip(found[::2], found[1::2], strict=True)).items() for value in pair]


MOST_DIGITS: Final = 19  # of the largest number that a server counts to
LATEST: Final = 253_402_300_799_000  # ms; the calendar ends then


def number(value: bytes | str | None) -> int | None:
    """A number as the runtime writes it; None: there is none, or something else is in its place."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


def moment(value: bytes | str | None) -> int | None:
    """A time of the server's clock in ms; None: there is none, or something else is in its place."""
    found = number(value)
    return None if found is None else min(found, LATEST)


def time_of(score: bytes | str) -> int:
    """A time in ms that is the score of a sorted set, at most the end of the calendar."""
    return int(max(0.0, min(float(score), float(LATEST))))


def is_entry_id(text: str) -> bool:
    """Whether this is the id of an entry of a stream, in full."""
    first, _, second = text.partition("-")
    return number(first) is not None and number(second) is not None
