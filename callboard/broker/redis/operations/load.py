"""How much waits for each agent of a type, counted in small calls."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from callboard.broker.redis.client.transport import RedisTransport

from .backlog import begun, held_by, order_of
from .numbers import is_entry_id, number
from .paging import pages
from .views import HeldEntry, Overview

MOST_UNREAD = 100_000  # unread entries of a type that are looked at


@dataclass(slots=True)
class Load:
    """What waits for the agents of one type, by their keys.

    Attributes:
        waiting: messages that wait.
        oldest: id of the first of them that was seen, as numbers.
        held: what workers hold, in order; the first one may run.
        running: what handlers run.
    """

    waiting: Counter[str] = field(default_factory=Counter)
    oldest: dict[str, tuple[int, ...]] = field(default_factory=dict)
    held: dict[str, list[HeldEntry]] = field(default_factory=dict)
    running: dict[str, HeldEntry] = field(default_factory=dict)

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


async def load_of(transport: RedisTransport, view: Overview, agent_type: str) -> Load:
    """The load of one type. `oldest` lacks what is parked: see `look_at_parked`."""
    load = Load()
    await _add_held(transport, load, view, agent_type)
    flat = await pages(transport, "HSCAN", f"parked:{agent_type}")
    for i in range(0, len(flat), 2):
        load.waiting[flat[i].decode(errors="replace")] += number(flat[i + 1]) or 0
    await _tally(transport, load, "early", agent_type, "0")
    left = MOST_UNREAD
    for suffix, position in _unread(view, agent_type):
        if left > 0:
            left -= await _tally(transport, load, "stream", suffix, f"({position}", left)
    return load


async def look_at_parked(transport: RedisTransport, agent_type: str, key: str, load: Load) -> None:
    """Notes since when the first of what is parked behind an agent waits."""
    first = await transport.admin.command("LINDEX", transport.keys.of(f"wait:{agent_type}:{key}"), 0)
    if first:
        load.note(key, first.decode(errors="replace").rpartition(" ")[2])


async def _add_held(transport: RedisTransport, load: Load, view: Overview, agent_type: str) -> None:
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
    transport: RedisTransport, load: Load, kind: str, what: str, start: str, most: int = MOST_UNREAD
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
