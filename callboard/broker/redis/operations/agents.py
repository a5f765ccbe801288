"""Views of agents: all that is known of one, and for which most messages wait."""

from __future__ import annotations

import asyncio
import heapq
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from callboard.broker.errors import CommandError
from callboard.broker.redis.client.questions import AWAITED_RUN
from callboard.broker.redis.client.states import lengths_of
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import TOPIC, dead as dead_suffix, topic

from .entries import fields_of
from .inspect import (
    attempts_at,
    begun,
    first_of_each,
    held_by,
    is_entry_id,
    number,
    order_of,
    overview,
    pages,
    paused,
    time_of,
    timers,
    waiting,
)
from .views import (
    AgentView,
    HeldEntry,
    KeyView,
    MessageView,
    OpenQuestion,
    Overview,
    ParkedEntry,
    Pause,
    Timer,
)

MOST_TIMERS = 10_000  # timers of a namespace that are looked at
MOST_LETTERS = 10_000  # dead letters of a type that are looked at
FEW_TIMERS = 100  # the same two, for a look that costs little
FEW_LETTERS = 50
SHOWN = 20  # letters and delayed messages of one agent
LETTERS_AT_ONCE = 50  # each may be as large as the largest message


async def agent(
    transport: RedisTransport, agent_type: str, key: str, *, state: bool = False, unread: bool = True
) -> AgentView:
    """All that is known of one agent; of one that was never heard of, only its name.

    Args:
        transport: where.
        agent_type: its type.
        key: its key.
        state: also its state itself.
        unread: also counts what no worker has read yet, for which all of the namespace is looked at; without, some short
            commands do, and what is unread is neither in `waiting` nor in `oldest`.
    """
    seen = await (_seen_in_all if unread else _seen_alone)(transport, agent_type, key)
    load = seen.load
    await look_at_parked(transport, agent_type, key, load)
    parked = await waiting(transport, agent_type, key, n=1)
    current = load.running.get(key) or next(iter(load.held.get(key, ())), None)
    first = await _first(transport, agent_type, current, parked.entries)
    sizes = await sizes_of(transport, agent_type, key)
    return AgentView(
        type=agent_type,
        key=key,
        at=seen.at,
        holder=parked.holder,
        running=await _message(transport, current, seen.at) if current else None,
        begun=key in load.running,
        waiting=load.waiting[key],
        oldest=load.since(key),
        resumes=parked.resumes,
        suspended=key in load.asking,
        questions=await _questions(transport, agent_type, key) if key in load.asking else {},
        attempts=first.attempts if first else 0,
        deaths=first.deaths if first else 0,
        reason=first.reason if first else "",
        delayed=seen.delayed,
        letters=await _letters(transport, agent_type, key, MOST_LETTERS if unread else FEW_LETTERS),
        paused=seen.paused,
        reentrant=await _is_reentrant(transport, agent_type),
        state_version=sizes.version if sizes else 0,
        state_bytes=sizes.data if sizes else 0,
        logs={name: (log.items, log.bytes) for name, log in sizes.logs.items()} if sizes else {},
        state_writer=await _writer(transport, agent_type, key),
        state=await state_of(transport, agent_type, key) if state else None,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is seen of one agent elsewhere than under its own keys.

    Attributes:
        at: server ms.
        load: of its type, or its own part of that.
        delayed: messages for it that are due later.
        paused: what keeps it from being started.
    """

    at: int
    load: AgentLoad
    delayed: tuple[Timer, ...]
    paused: tuple[Pause, ...]


async def _seen_in_all(transport: RedisTransport, agent_type: str, key: str) -> _Seen:
    view = await overview(transport)
    about = next((one for one in view.types if one.type == agent_type), None)
    load = await load_of(transport, view, agent_type) if about else AgentLoad()
    timers_of = await _delayed(transport, about.streams if about else (), key, MOST_TIMERS)
    return _Seen(
        view.at, load, timers_of, _pauses(view.paused, about.streams if about else (), f"{agent_type}/{key}")
    )


async def _seen_alone(transport: RedisTransport, agent_type: str, key: str) -> _Seen:
    """The same without what no worker has read yet, by a few short commands, however much there is."""
    command, of = transport.admin.command, transport.keys.of
    (seconds, micros), flat, *books = await asyncio.gather(
        command("TIME"),
        command("HGETALL", of("paused")),
        command("HGET", of(f"busy:{agent_type}"), key),
        command("HGET", of(f"parked:{agent_type}"), key),
        command("HEXISTS", of(f"suspended:{agent_type}"), key),
    )
    holder, parked, is_asking = books
    now, load = int(seconds) * 1000 + int(micros) // 1000, AgentLoad()
    if holder:
        await _add_own(transport, load, holder.decode(errors="replace"), (agent_type, key), now)
    load.waiting[key] += number(parked) or 0
    if is_asking:
        load.asking.add(key)
        load.waiting[key] = max(0, load.waiting[key] - 1)
    stopped = paused(fields_of(flat))
    next_ones = [one for one in await timers(transport, FEW_TIMERS) if one.agent == key and one.stream]
    named = {
        *(one.stream or "" for one in next_ones),
        *(topic(one.name) for one in stopped if one.kind == "topic"),
    }
    answers = await asyncio.gather(*(command("SISMEMBER", of(f"streams:{agent_type}"), one) for one in named))
    streams = tuple(name for name, is_read in zip(named, answers, strict=True) if is_read)
    due = tuple(one for one in next_ones if one.stream in streams)[:SHOWN]
    return _Seen(now, load, due, _pauses(stopped, streams, f"{agent_type}/{key}"))


async def _add_own(
    transport: RedisTransport, load: AgentLoad, holder: str, agent: tuple[str, str], now: int
) -> None:
    """What the worker that holds an agent has of it."""
    lease, runs = await asyncio.gather(
        transport.admin.command("ZSCORE", transport.keys.of("workers"), holder),
        transport.admin.command("HGET", transport.keys.of(f"worker:{holder}"), "runs"),
    )
    of_type, key = agent
    held = [one for one in await held_by(transport, holder) if one.type == of_type]
    words = (runs or b"").decode(errors="replace").split()
    counts = dict(zip(words[::2], words[1::2], strict=False))
    run = (number(counts.get(of_type)) or 0) if lease is not None and time_of(lease) >= now else 0
    load.running.update({one.key: one for one in first_of_each(held, run) if one.key == key})
    for entry in held:
        if entry.key == key:
            load.held.setdefault(key, []).append(entry)
            if load.running.get(key) != entry:
                load.add(key, 1, entry.entry)


async def state_of(transport: RedisTransport, agent_type: str, key: str) -> str | None:
    """The stored state of an agent as JSON, without its logs; None: none is stored."""
    data = await transport.admin.command("HGET", transport.keys.of(f"state:{agent_type}:{key}"), "d")
    return data.decode(errors="replace") if data else None


async def _writer(transport: RedisTransport, agent_type: str, key: str) -> str:
    """The worker that wrote a stored state last."""
    writer = await transport.admin.command("HGET", transport.keys.of(f"state:{agent_type}:{key}"), "w")
    return (writer or b"").decode(errors="replace")


async def _questions(transport: RedisTransport, agent_type: str, key: str) -> dict[str, OpenQuestion]:
    """The open questions of an agent."""
    found: dict[str, OpenQuestion] = {}
    for one in await transport.inputs.open_ids(key=key):
        fields = await transport.inputs.get(one)
        if (fields.get("type"), fields.get("key"), fields.get("status")) == (agent_type, key, "open"):
            found[one] = OpenQuestion(
                fields.get("question", ""), _kind(fields.get("details", "")) != AWAITED_RUN
            )
    return found


def _kind(details: str) -> object:
    """The kind that is said among the details of a question; None: nothing is, or they were changed by hand."""
    try:
        found = json.loads(details)
    except ValueError:
        return None
    return found.get("kind") if isinstance(found, dict) else None


async def _first(
    transport: RedisTransport, agent_type: str, current: HeldEntry | None, parked: Sequence[ParkedEntry]
) -> ParkedEntry | None:
    """The first message of an agent with its attempts: the one in a worker, else the first that is parked."""
    if current is None:
        return parked[0] if parked else None
    (found,) = await attempts_at(transport, agent_type, [f"{current.stream} {current.entry}".encode()])
    return found


async def _message(transport: RedisTransport, held: HeldEntry, now: int) -> MessageView:
    name = transport.keys.of(held.stream)
    found = await transport.admin.command("XRANGE", name, held.entry, held.entry)
    fields = fields_of(found[0][1]) if found else {}
    return MessageView(
        stream=held.stream,
        entry=held.entry,
        id=fields.get("id", b"").decode(errors="replace"),
        type=fields.get("type", b"").decode(errors="replace"),
        since=await _since(transport, held, now),
    )


async def _since(transport: RedisTransport, held: HeldEntry, now: int) -> int | None:
    """When the worker was given the entry; a reset has no group that would say."""
    if held.stream.startswith("urgent:"):
        return None
    name = transport.keys.of(held.stream)
    try:
        found = await transport.admin.command("XPENDING", name, held.type, held.entry, held.entry, 1)
    except CommandError as error:
        if not str(error).startswith("NOGROUP"):  # it was deleted by hand, and is made again
            raise
        return None
    # What was published after `now` was read has not waited yet.
    return max(now - int(found[0][2]), int(held.entry.partition("-")[0])) if found else None


async def _delayed(
    transport: RedisTransport, streams: Collection[str], key: str, most: int
) -> tuple[Timer, ...]:
    """The messages for an agent that are due later, the nearest first."""
    found = await timers(transport, most)
    return tuple(one for one in found if one.agent == key and one.stream in streams)[:SHOWN]


async def _letters(transport: RedisTransport, agent_type: str, key: str, most: int) -> tuple[str, ...]:
    """The names of an agent's dead letters, the newest first."""
    name, end, seen = transport.keys.of(dead_suffix(agent_type)), "+", 0
    found: list[str] = []
    while seen < most and len(found) < SHOWN:
        raws = await transport.admin.command("XREVRANGE", name, end, "-", "COUNT", LETTERS_AT_ONCE)
        for letter, flat in raws:
            if fields_of(flat).get("key", b"").decode(errors="replace") == key:
                found.append(f"{agent_type}/{letter.decode()}")
        if len(raws) < LETTERS_AT_ONCE:
            break
        end, seen = "(" + raws[-1][0].decode(), seen + len(raws)
    return tuple(found[:SHOWN])


def _pauses(stopped: Iterable[Pause], streams: Collection[str], agent: str) -> tuple[Pause, ...]:
    """Reasons that keep an agent from being started."""
    topics = {suffix.removeprefix(TOPIC) for suffix in streams}
    names = {"type": {agent.partition("/")[0]}, "key": {agent}, "topic": topics}
    return tuple(pause for pause in stopped if pause.name in names.get(pause.kind, ()))


async def _is_reentrant(transport: RedisTransport, agent_type: str) -> bool:
    line = await transport.admin.command("HGET", transport.keys.of("types"), agent_type)
    try:
        settings = json.loads(line or b"{}")
    except ValueError:
        return False
    return isinstance(settings, dict) and settings.get("reentrant") is True


async def hottest(
    transport: RedisTransport, agent_type: str | None = None, n: int = 10
) -> tuple[KeyView, ...]:
    """The agents for whom most messages wait, the most first; those that nothing waits for are left out.

    Of what was not read yet, the first 100,000 entries of each type are looked at.

    Args:
        transport: where.
        agent_type: agents of this type; None: of all types.
        n: how many of each type at most.
    """
    view = await overview(transport)
    found: list[KeyView] = []
    for one in view.types:
        if agent_type in (None, one.type):
            load = await load_of(transport, view, one.type)
            top = heapq.nlargest(n, ((number, key) for key, number in load.waiting.items() if number > 0))
            found += [await _key_view(transport, load, one.type, key) for _, key in top]
    return tuple(sorted(found, key=lambda one: (-one.waiting, one.type, one.key)))


async def _key_view(transport: RedisTransport, load: AgentLoad, agent_type: str, key: str) -> KeyView:
    await look_at_parked(transport, agent_type, key, load)
    sizes = await sizes_of(transport, agent_type, key)
    return KeyView(
        type=agent_type,
        key=key,
        waiting=load.waiting[key],
        running=key in load.running,
        oldest=load.since(key),
        state_bytes=sizes.total if sizes else 0,
    )


MOST_UNREAD = 100_000  # unread entries of a type that are looked at


@dataclass(slots=True)
class AgentLoad:
    """Messages that wait for the agents of one type, by their keys.

    Attributes:
        waiting: messages that wait.
        oldest: id of the first of them that was seen, as numbers.
        held: what workers hold, in order; the first one may run.
        running: what handlers run.
        asking: agents whose handler waits for an answer; its message, the first that is parked behind it, does not wait.
    """

    waiting: Counter[str] = field(default_factory=Counter)
    oldest: dict[str, tuple[int, ...]] = field(default_factory=dict)
    held: dict[str, list[HeldEntry]] = field(default_factory=dict)
    running: dict[str, HeldEntry] = field(default_factory=dict)
    asking: set[str] = field(default_factory=set[str])

    def add(self, key: str, number: int, first: str) -> None:
        """So many messages more, of which this is the first entry."""
        self.waiting[key] += number
        self.note(key, first)

    def note(self, key: str, entry: str) -> None:
        """This entry waits, and was counted."""
        if is_entry_id(entry):
            order = order_of(entry)
            self.oldest[key] = min(self.oldest.get(key, order), order)

    def since(self, key: str) -> int | None:
        """When the message that waits longest was published, or was due, server ms."""
        found = self.oldest.get(key)
        return found[0] if found else None


async def load_of(transport: RedisTransport, view: Overview, agent_type: str) -> AgentLoad:
    """The load of one type. `oldest` lacks what is parked: see `look_at_parked`."""
    load = AgentLoad()
    await _add_held(transport, load, view, agent_type)
    flat = await pages(transport, "HSCAN", f"parked:{agent_type}")
    for i in range(0, len(flat), 2):
        load.waiting[flat[i].decode(errors="replace")] += number(flat[i + 1]) or 0
    asking = await pages(transport, "HSCAN", f"suspended:{agent_type}")
    load.asking.update(key.decode(errors="replace") for key in asking[::2])
    for key in load.asking:
        load.waiting[key] = max(0, load.waiting[key] - 1)
    await _tally(transport, load, "early", agent_type, "0")
    left = MOST_UNREAD
    for suffix, position in _unread(view, agent_type):
        if left > 0:
            left -= await _tally(transport, load, "stream", suffix, f"({position}", left)
    return load


async def look_at_parked(transport: RedisTransport, agent_type: str, key: str, load: AgentLoad) -> None:
    """Notes since when the first of what is parked behind an agent waits."""
    place = int(key in load.asking)
    first = await transport.admin.command("LINDEX", transport.keys.of(f"wait:{agent_type}:{key}"), place)
    if first:
        load.note(key, first.decode(errors="replace").rpartition(" ")[2])


async def _add_held(transport: RedisTransport, load: AgentLoad, view: Overview, agent_type: str) -> None:
    for worker in view.workers:
        if not worker.held or agent_type not in worker.types:
            continue
        held = await held_by(transport, worker.name)
        load.running.update({one.key: one for one in begun(worker, held) if one.type == agent_type})
        for entry in held:
            if entry.type == agent_type:
                load.held.setdefault(entry.key, []).append(entry)
                if load.running.get(entry.key) != entry:
                    load.add(entry.key, 1, entry.entry)


def _unread(view: Overview, agent_type: str) -> list[tuple[str, str]]:
    """The streams with entries that the type was not given, and the last one that it was."""
    groups = next((one.groups for one in view.types if one.type == agent_type), {})
    return [(suffix, group.position) for suffix, group in groups.items() if group.first_unread]


async def _tally(
    transport: RedisTransport, load: AgentLoad, kind: str, what: str, start: str, most: int = MOST_UNREAD
) -> int:
    """Counts entries by agent; returns how many."""
    counted = 0
    while start and counted < most:
        at, *found = await transport.admin.run("tally", (kind, what, start))
        start = at.decode(errors="replace")
        for i in range(0, len(found), 3):
            load.add(found[i].decode(errors="replace"), found[i + 1], found[i + 2].decode(errors="replace"))
            counted += found[i + 1]
    return counted


SAMPLED = 5  # items at each end of a log from whose sizes that of the whole is estimated


@dataclass(frozen=True, slots=True)
class LogSize:
    """The size of one log.

    Attributes:
        items: how many.
        bytes: of their JSON together; estimated from some of them.
    """

    items: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StateSize:
    """The size of a stored state.

    Attributes:
        version: commits that it has seen.
        data: bytes of its JSON, without the logs; 0: the default.
        logs: by field.
    """

    version: int
    data: int
    logs: Mapping[str, LogSize]

    @property
    def total(self) -> int:
        """Bytes of all of it."""
        return self.data + sum(log.bytes for log in self.logs.values())


async def sizes_of(transport: RedisTransport, agent_type: str, key: str) -> StateSize | None:
    """The sizes of a stored state, whatever its length at little cost; None: nothing is stored."""
    state = transport.keys.of(f"state:{agent_type}:{key}")
    version, line = await transport.admin.command("HMGET", state, "v", "l")
    if version is None:
        return None
    data: int = await transport.admin.command("HSTRLEN", state, "d")
    names = {field: transport.keys.of(f"log:{agent_type}:{key}:{field}") for field in lengths_of(line)}
    return StateSize(
        number(version) or 0, data, {field: await _size(transport, key) for field, key in names.items()}
    )


async def _size(transport: RedisTransport, key: str) -> LogSize:
    items: int = await transport.admin.command("LLEN", key)
    first: list[bytes] = await transport.admin.command("LRANGE", key, 0, SAMPLED - 1)
    last: list[bytes] = await transport.admin.command("LRANGE", key, -SAMPLED, -1)
    sample = first if items <= SAMPLED else first + last
    return LogSize(items, sum(map(len, sample)) * items // len(sample) if sample else 0)
