"""What waits for an agent type: how much, and since when. See `views.AgentTypeView` for what counts as waiting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from callboard.broker.redis.client.transport import RedisTransport

from .numbers import is_entry_id
from .paging import pages
from .views import GroupView, HeldEntry, WorkerView

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
        first: dict[str, HeldEntry] = {}
        for entry in held:
            if entry.type == agent_type:
                first.setdefault(entry.key, entry)
        found += sorted(first.values(), key=lambda entry: order_of(entry.entry))[:number]
    return found


async def in_hand(transport: RedisTransport, workers: Iterable[WorkerView]) -> list[HeldEntry]:
    """The entries that handlers run, of all workers."""
    found: list[HeldEntry] = []
    for worker in workers:
        if worker.held:
            found += begun(worker, await held_by(transport, worker.name))
    return found


async def oldest(
    transport: RedisTransport, agent_type: str, groups: Groups, running: Iterable[HeldEntry]
) -> int | None:
    """When the message of a type that waits longest was published, or was due, server ms; None: nothing waits."""
    first = [order_of(group.first_unread) for group in groups.values() if group.first_unread]
    best = min(first, default=None)
    skipped = {(entry.stream, entry.entry) for entry in running if entry.type == agent_type}
    pending = [
        (order_of(group.first_pending), suffix) for suffix, group in groups.items() if group.first_pending
    ]
    for bound, suffix in sorted(pending):
        if best is not None and bound >= best:
            break
        found = await _first_pending(transport, agent_type, suffix, skipped)
        if found is not None and (best is None or found < best):
            best = found
    return None if best is None else best[0]


async def _first_pending(
    transport: RedisTransport, agent_type: str, suffix: str, skipped: set[tuple[str, str]]
) -> tuple[int, ...] | None:
    """The first entry that was given out and does not run."""
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
