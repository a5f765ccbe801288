"""Mending a namespace: what is wrong inside it, and setting it right while workers go on.

A snapshot gives suspicions; each is checked and mended in one step by `lua/repair/`, so that what only looked wrong
because time passed is left alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias

from callboard.broker.redis.catalogue import kind_of
from callboard.broker.redis.client.endpoint import Argument
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import inbox, topic

from .snapshot import Books, BookSnapshot, Photographer, ReaderGroup, each

__all__ = ["KINDS", "Fault", "Repair", "find", "repair"]


AT_ONCE = 50  # suspicions in one call, so that it ends soon
ENTRIES_AT_ONCE = 500  # entries of wait lists that one call looks at, and the most of one list
SEARCHED_AT_ONCE = 400_000  # entries of long lists that one call searches through for those that it moves
ROUNDS = 5  # mending one thing may bring another to light
WIDTH = 4  # values of one suspicion in a call

Kind = Literal[
    "worker",
    "group",
    "topic",
    "stray group",
    "consumer",
    "key",
    "parked",
    "order",
    "pending",
    "early",
    "ready",
    "tries",
    "urgent",
    "timer",
    "expiry",
    "log",
    "question",
    "type",
    "message",
    "undeclared",
    "unknown",
]
Status = Literal["there", "mended", "stays"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong, checked in one step with the server.

    Attributes:
        kind: what sort of thing, a key of `KINDS`.
        names: which one: agent type, key, stream suffix, entry id or worker, as the kind has them.
        status: "there", it can be mended; "mended"; "stays", `detail` says why.
        detail: what is wrong with it.
    """

    kind: Kind
    names: tuple[str, ...]
    status: Status
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} {' '.join(name for name in self.names if name)}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Repair:
    """The result of a repair.

    Attributes:
        mended: faults that are gone.
        left: faults that are still there, each with the reason.
    """

    mended: tuple[Fault, ...]
    left: tuple[Fault, ...]


async def find(transport: RedisTransport) -> tuple[Fault, ...]:
    """The faults that the namespace has now. Changes nothing.

    Raises:
        ServerUnavailableError, ConnectionLostError: the server can't be reached.
        CommandError: the user may not run a command that is needed.
        LayoutError: another version keeps the namespace in another way.
    """
    return await _round(transport, "look")


async def repair(transport: RedisTransport) -> Repair:
    """Mends what can be mended safely; running it again, or in several processes at once, does no harm.

    A worker whose books are wrong is ended as if its lease were over: what it runs is run again, without counting an
    attempt, and it joins again by itself.

    Raises:
        ServerUnavailableError, ConnectionLostError: the server can't be reached.
        CommandError: the user may not run a command that is needed.
        LayoutError: another version keeps the namespace in another way.
    """
    mended: list[Fault] = []
    found: tuple[Fault, ...] = ()
    for _ in range(ROUNDS):
        found = await _round(transport, "mend")
        now = [fault for fault in found if fault.status == "mended"]
        if not now:
            break
        mended += now
    return Repair(tuple(mended), tuple(fault for fault in found if fault.status != "mended"))


async def _round(transport: RedisTransport, mode: str) -> tuple[Fault, ...]:
    await transport.admin.run(
        "measure", ("",)
    )  # writes nothing; fails where the books are kept in another way
    shot = await Photographer(transport).take()
    doubts = [*suspicions(shot), *[doubt async for doubt in _everlasting(transport, shot)]]
    faults = [fault async for fault in _checked(transport, mode, _parts(doubts, shot))]
    return (*faults, *unmendable(shot))


async def _everlasting(transport: RedisTransport, shot: BookSnapshot) -> AsyncIterator[Suspicion]:
    """Keys that should expire and do not."""
    lifetimes = {name: _lifetime(transport, name) for name in sorted(shot.names)}
    names = [name for name, ms in lifetimes.items() if ms is not None]
    answers = await each(names, lambda name: transport.admin.command("PTTL", transport.keys.of(name)))
    for name, left in zip(names, answers, strict=True):
        if left == -1:
            yield Suspicion("expiry", (name, str(lifetimes[name])))


def _lifetime(transport: RedisTransport, name: str) -> int | None:
    kind = kind_of(name)
    return None if kind is None else kind.expires_in(transport.settings)


async def _checked(
    transport: RedisTransport, mode: str, parts: Iterable[Sequence[Suspicion]]
) -> AsyncIterator[Fault]:
    for part in parts:
        answer = await transport.admin.run("repair", (mode, *_arguments(part)))
        for i in range(0, len(answer), 3):
            kind, names = part[int(answer[i])]
            yield Fault(kind, names, answer[i + 1].decode(), answer[i + 2].decode(errors="replace"))


def _parts(doubts: Sequence[Suspicion], shot: BookSnapshot) -> Iterator[list[Suspicion]]:
    for _, of_kind in groupby(doubts, lambda doubt: doubt.kind):
        part: list[Suspicion] = []
        weight = 0
        for doubt in of_kind:
            weight += _weight(doubt, shot)
            if part and weight > ENTRIES_AT_ONCE:
                yield part
                part, weight = [], _weight(doubt, shot)
            part.append(doubt)
        yield part


def _weight(doubt: Suspicion, shot: BookSnapshot) -> int:
    """How many entries it may have a call look at."""
    if doubt.kind not in ("parked", "order"):
        return ENTRIES_AT_ONCE // AT_ONCE
    agent_type, key, *pair = doubt.names
    length = len(shot.books[agent_type].wait[key])
    if any(pair):
        return ENTRIES_AT_ONCE * length // SEARCHED_AT_ONCE
    return min(length + 1, ENTRIES_AT_ONCE)


def _arguments(doubts: Iterable[Suspicion]) -> list[Argument]:
    flat: list[Argument] = []
    for kind, names in doubts:
        flat += (kind, *names, *[""] * (WIDTH - 1 - len(names)))
    return flat


class Suspicion(NamedTuple):
    """Something that looked wrong at some moment. `lua/repair/repair.lua` says what `names` are for each kind."""

    kind: Kind
    names: tuple[str, ...]


class KindFacts(NamedTuple):
    """The meaning of a kind of fault. `serious`: messages can be stuck, lost or out of order until it is mended."""

    what: str
    why: str
    serious: bool


KINDS: Final[dict[Kind, KindFacts]] = {
    "worker": KindFacts(
        "workers without a lease",
        "what a dead worker holds waits until another worker's next heartbeat; with no worker alive, until one starts",
        True,
    ),
    "group": KindFacts(
        "consumer groups that are missing",
        "nothing new of the stream reaches the agent type until a worker of it makes the group again",
        True,
    ),
    "topic": KindFacts(
        "subscriptions that a topic does not know",
        "new messages are not announced to the subscriber, and the topic is kept short as one without readers",
        True,
    ),
    "stray group": KindFacts(
        "consumer groups that belong to no agent type",
        "handled entries are kept for a group that will never read them, so that the stream grows",
        False,
    ),
    "consumer": KindFacts("consumers that are no workers", "they cost memory and make XINFO slow", False),
    "key": KindFacts(
        "agents whose busy mark is wrong",
        "their messages are never handled, or two workers may run one agent at once",
        True,
    ),
    "parked": KindFacts(
        "wait lists that name entries twice, or entries that are gone",
        "a message could be handled twice, or trimmed away before it is handled",
        True,
    ),
    "order": KindFacts(
        "parked entries that are not in the order of publishing",
        "messages would be handled out of order",
        True,
    ),
    "pending": KindFacts(
        "entries that were given out and that no worker holds",
        "they are never handled, and keep their stream from being trimmed",
        True,
    ),
    "early": KindFacts("entries read ahead that are gone", "they cost memory", False),
    "ready": KindFacts("keys to be taken that are not free", "each costs one look", False),
    "tries": KindFacts("counted attempts of entries that are done", "they cost memory", False),
    "urgent": KindFacts("resets that are gone", "the agent can't be reset any more", True),
    "timer": KindFacts("timers whose message is gone", "they cost memory", False),
    "expiry": KindFacts("keys that should expire and do not", "they cost memory for ever", False),
    "log": KindFacts(
        "logs that are not as long as their states say",
        "what comes for such an agent is a dead letter until a repair takes the log as it is",
        True,
    ),
    "question": KindFacts(
        "questions that no message waits for, or that are listed as what they are not",
        "people answer for nothing, or are not asked",
        False,
    ),
    "type": KindFacts(
        "keys of the wrong type", "what needs such a key is a dead letter, or waits until it is deleted", True
    ),
    "message": KindFacts(
        "delayed messages without a timer", "they are never sent, and when they were due is not known", True
    ),
    "undeclared": KindFacts(
        "subscribers that are not declared",
        "direct messages to them are refused as undeliverable, and doctor can't look into them",
        True,
    ),
    "unknown": KindFacts("keys that are nothing of Callboard's", "they cost memory", False),
}


def suspicions(shot: BookSnapshot) -> Iterator[Suspicion]:
    """Everything to be checked, in the order in which it has to be mended."""
    for look in LOOKS:
        yield from look(shot)


def _workers(shot: BookSnapshot) -> Iterator[Suspicion]:
    for worker in sorted({*shot.own, *shot.leases}):
        if shot.leases.get(worker, 0) < shot.now:
            yield Suspicion("worker", (worker,))


def _readers(shot: BookSnapshot, suffix: str) -> set[str]:
    """The agent types that should have a group in a stream."""
    name = suffix.partition(":")[2]
    if suffix.startswith("inbox:"):
        return {name} & shot.declared
    return set(shot.subscribers.get(name, ())) & shot.declared


def _streams(shot: BookSnapshot) -> Iterator[Suspicion]:
    wanted = {inbox(name) for name in shot.declared} | {topic(name) for name in shot.subscribers}
    for suffix in sorted(wanted | set(shot.groups)):
        groups = {group.name: group for group in shot.groups.get(suffix, ())}
        readers = _readers(shot, suffix)
        for name in sorted(readers):
            if name not in groups or suffix not in shot.books[name].streams:
                yield Suspicion("group", (name, suffix))
        for name in sorted(set(groups) - readers):
            yield from _reader_or_stray(shot, suffix, name)
        for group in groups.values():
            yield from _consumers(shot, suffix, group)


def _reader_or_stray(shot: BookSnapshot, suffix: str, name: str) -> Iterator[Suspicion]:
    if name in shot.declared and suffix.startswith("topic:") and suffix in shot.books[name].streams:
        yield Suspicion("topic", (name, suffix.partition(":")[2]))
    yield Suspicion("stray group", (name, suffix))


def _consumers(shot: BookSnapshot, suffix: str, group: ReaderGroup) -> Iterator[Suspicion]:
    for consumer in group.consumers:
        if consumer != "nobody" and shot.leases.get(consumer, 0) < shot.now:
            yield Suspicion("consumer", (group.name, suffix, consumer))


def _keys(shot: BookSnapshot) -> Iterator[Suspicion]:
    for agent_type, books in shot.books.items():
        running = _running(shot, agent_type)
        for key in sorted({*books.busy, *books.wait, *books.parked, *books.suspended, *running}):
            if not _agrees(shot, agent_type, books, key, running.get(key, set())):
                yield Suspicion("key", (agent_type, key))
        for key in sorted(books.ready):
            if books.busy.get(key) != "":
                yield Suspicion("ready", (agent_type, key))


def _running(shot: BookSnapshot, agent_type: str) -> dict[str, set[str]]:
    """Agent key -> workers that hold entries of it."""
    found: dict[str, set[str]] = {}
    for worker in shot.leases:
        for name, key in shot.own.get(worker, {}).items():
            if name.partition(" ")[0] == agent_type:
                found.setdefault(key, set()).add(worker)
    return found


def _agrees(shot: BookSnapshot, agent_type: str, books: Books, key: str, running: set[str]) -> bool:
    holder, parked = books.busy.get(key), len(books.wait.get(key, ()))
    # Whether what it waits for can still come only the server can tell.
    if books.parked.get(key, 0) != parked or key in books.suspended:
        return False
    if holder:
        return running == {holder} and shot.leases.get(holder, 0) >= shot.now
    if running or (holder is None) != (parked == 0):
        return False
    return holder is None or key in books.ready | books.aside or f"k|{agent_type}|{key}" in shot.timers


def _entries(shot: BookSnapshot) -> Iterator[Suspicion]:
    for agent_type, books in shot.books.items():
        prefix = f"{agent_type} "
        held = {
            name.removeprefix(prefix) for own in shot.own.values() for name in own if name.startswith(prefix)
        }
        pending = _pending(shot, agent_type)
        # Whether the entries are there only the server can tell without sending them all.
        yield from (Suspicion("parked", (agent_type, key)) for key in books.wait)
        for key, refs in books.wait.items():
            yield from (Suspicion("order", (agent_type, key, pair)) for pair in misplaced(refs))
        parked = {ref for refs in books.wait.values() for ref in refs}
        early = {member.partition("|")[2]: member for member in books.early}
        for ref in sorted(pending - held - parked - set(early), key=_order):
            suffix, _, entry = ref.rpartition(" ")
            yield Suspicion("pending", (agent_type, suffix, entry))
        yield from (Suspicion("early", (agent_type, member)) for member in books.early)
        yield from (Suspicion("tries", (agent_type, ref)) for ref in books.tries if ref not in pending)


def _order(ref: str) -> tuple[int, ...]:
    return tuple(int(part) for part in ref.rpartition(" ")[2].split("-"))


def _pending(shot: BookSnapshot, agent_type: str) -> set[str]:
    return {
        f"{suffix} {entry}"
        for suffix, groups in shot.groups.items()
        for group in groups
        if group.name == agent_type
        for entry in group.pending
    }


def _timers(shot: BookSnapshot) -> Iterator[Suspicion]:
    yield from (Suspicion("urgent", (name,)) for name in sorted(shot.urgent))
    for member in sorted(shot.timers):
        kind, _, rest = member.partition("|")
        if kind != "k" and f"timer:{rest}" not in shot.names:
            yield Suspicion("timer", (member,))


def _logs(shot: BookSnapshot) -> Iterator[Suspicion]:
    yield from (Suspicion("log", names) for names in sorted(shot.logs))


def _questions(shot: BookSnapshot) -> Iterator[Suspicion]:
    # Whose message waits only the server can tell.
    yield from (Suspicion("question", (name,)) for name in sorted(shot.questions))


SORTED_AT_ONCE = 500  # as in lua/repair/order.lua: a list that is no longer is sorted as a whole


def misplaced(refs: Sequence[str]) -> Iterator[str]:
    """Entries that have to be moved, as few as possible, in the order in which they were published.

    Args:
        refs: a wait list; what is no ref in it is for others to find.

    Yields:
        `<ref>|<ref that it belongs before>`, the latter "" for the end of the list; or once "" for a short list.
    """
    known = [(place, ref) for ref in refs if (place := _place(ref)) is not None]
    places = [place for place, _ in known]
    if all(places[i - 1] <= places[i] for i in range(1, len(places))):
        return
    if len(refs) <= SORTED_AT_ONCE:
        yield ""
        return
    stay = _longest_rising(places)
    standing = set(stay)
    standing_places = [places[i] for i in stay]
    moved = sorted(set(range(len(known))) - standing, key=lambda i: places[i])
    for place, ref in dict.fromkeys(known[i] for i in moved):  # what is named twice is moved once
        after = bisect_right(standing_places, place)
        yield f"{ref}|{known[stay[after]][1] if after < len(stay) else ''}"


Place: TypeAlias = tuple[int, int]
URGENT: Place = (-1, -1)  # a reset is before everything else


def _place(ref: str) -> Place | None:
    suffix, _, entry = ref.partition(" ")
    if suffix.startswith("urgent:"):
        return URGENT
    first, _, second = entry.partition("-")
    return (int(first), int(second)) if first.isdecimal() and second.isdecimal() else None


def _longest_rising(places: Sequence[Place]) -> list[int]:
    """The numbers of the most places that are in order already (patience sorting)."""
    tails: list[Place] = []  # the lowest end of a rising row of each length
    ends: list[int] = []  # which place that is
    before: list[int] = []
    for i, place in enumerate(places):
        length = bisect_right(tails, place)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [place]
        ends[length : length + 1] = [i]
    row = [ends[-1]] if ends else []
    while row and before[row[-1]] >= 0:
        row.append(before[row[-1]])
    return row[::-1]


LOOKS: tuple[Callable[[BookSnapshot], Iterator[Suspicion]], ...] = (
    _streams,
    _workers,
    _entries,
    _keys,
    _timers,
    _logs,
    _questions,
)


def unmendable(shot: BookSnapshot) -> Iterator[Fault]:
    """The faults that only a person can decide on."""
    for name in sorted(shot.names):
        kind = kind_of(name)
        if kind is None:
            yield Fault(
                "unknown",
                (name,),
                "stays",
                "no key of Callboard has such a name: delete it if it is not yours",
            )
        elif shot.types[name] not in (*kind.type.split(" or "), "none"):
            detail = f"it is a {shot.types[name]} and has to be a {kind.type}: look at it, then delete it"
            yield Fault("type", (name,), "stays", detail)
    for name in sorted(shot.stray):
        detail = f"send it with ZADD timers 1 'm|{name[6:]}', or drop it with DEL {name}"
        yield Fault("message", (name,), "stays", detail)
    yield from _undeclared(shot.subscribers, shot.declared)


def _undeclared(subscribers: Mapping[str, list[str]], declared: set[str]) -> Iterator[Fault]:
    names = {name for types in subscribers.values() for name in types}
    for name in sorted(names - declared):
        yield Fault("undeclared", (name,), "stays", "start a worker of it again: it declares its type")
