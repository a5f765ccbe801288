"""Suspicions from a snapshot. Many come only from the time that passed while it was taken: `lua/repair/` decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from callboard.broker.redis.catalogue import kind_of
from callboard.broker.redis.keys import inbox, topic

from .faults import Fault, Suspicion
from .order import misplaced
from .snapshot import Books, Group, Snapshot


def suspicions(shot: Snapshot) -> Iterator[Suspicion]:
    """Everything to be checked, in the order in which it has to be mended."""
    for look in LOOKS:
        yield from look(shot)


def _workers(shot: Snapshot) -> Iterator[Suspicion]:
    for worker in sorted({*shot.own, *shot.leases}):
        if shot.leases.get(worker, 0) < shot.now:
            yield Suspicion("worker", (worker,))


def _readers(shot: Snapshot, suffix: str) -> set[str]:
    """The agent types that should have a group in a stream."""
    name = suffix.partition(":")[2]
    if suffix.startswith("inbox:"):
        return {name} & shot.declared
    return set(shot.subscribers.get(name, ())) & shot.declared


def _streams(shot: Snapshot) -> Iterator[Suspicion]:
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


def _reader_or_stray(shot: Snapshot, suffix: str, name: str) -> Iterator[Suspicion]:
    if name in shot.declared and suffix.startswith("topic:") and suffix in shot.books[name].streams:
        yield Suspicion("topic", (name, suffix.partition(":")[2]))
    yield Suspicion("stray group", (name, suffix))


def _consumers(shot: Snapshot, suffix: str, group: Group) -> Iterator[Suspicion]:
    for consumer in group.consumers:
        if consumer != "nobody" and shot.leases.get(consumer, 0) < shot.now:
            yield Suspicion("consumer", (group.name, suffix, consumer))


def _keys(shot: Snapshot) -> Iterator[Suspicion]:
    for agent_type, books in shot.books.items():
        running = _running(shot, agent_type)
        for key in sorted({*books.busy, *books.wait, *books.parked, *books.suspended, *running}):
            if not _agrees(shot, agent_type, books, key, running.get(key, set())):
                yield Suspicion("key", (agent_type, key))
        for key in sorted(books.ready):
            if books.busy.get(key) != "":
                yield Suspicion("ready", (agent_type, key))


def _running(shot: Snapshot, agent_type: str) -> dict[str, set[str]]:
    """Agent key -> workers that hold entries of it."""
    found: dict[str, set[str]] = {}
    for worker in shot.leases:
        for name, key in shot.own.get(worker, {}).items():
            if name.partition(" ")[0] == agent_type:
                found.setdefault(key, set()).add(worker)
    return found


def _agrees(shot: Snapshot, agent_type: str, books: Books, key: str, running: set[str]) -> bool:
    holder, parked = books.busy.get(key), len(books.wait.get(key, ()))
    # Whether what it waits for can still come only the server can tell.
    if books.parked.get(key, 0) != parked or key in books.suspended:
        return False
    if holder:
        return running == {holder} and shot.leases.get(holder, 0) >= shot.now
    if running or (holder is None) != (parked == 0):
        return False
    return holder is None or key in books.ready | books.aside or f"k|{agent_type}|{key}" in shot.timers


def _entries(shot: Snapshot) -> Iterator[Suspicion]:
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


def _pending(shot: Snapshot, agent_type: str) -> set[str]:
    return {
        f"{suffix} {entry}"
        for suffix, groups in shot.groups.items()
        for group in groups
        if group.name == agent_type
        for entry in group.pending
    }


def _timers(shot: Snapshot) -> Iterator[Suspicion]:
    yield from (Suspicion("urgent", (name,)) for name in sorted(shot.urgent))
    for member in sorted(shot.timers):
        kind, _, rest = member.partition("|")
        if kind != "k" and f"timer:{rest}" not in shot.names:
            yield Suspicion("timer", (member,))


def _logs(shot: Snapshot) -> Iterator[Suspicion]:
    yield from (Suspicion("log", names) for names in sorted(shot.logs))


def _questions(shot: Snapshot) -> Iterator[Suspicion]:
    # Whose message waits only the server can tell.
    yield from (Suspicion("question", (name,)) for name in sorted(shot.questions))


LOOKS: tuple[Callable[[Snapshot], Iterator[Suspicion]], ...] = (
    _streams,
    _workers,
    _entries,
    _keys,
    _timers,
    _logs,
    _questions,
)


def unmendable(shot: Snapshot) -> Iterator[Fault]:
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
