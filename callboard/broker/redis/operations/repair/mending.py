"""Finds what is wrong inside a namespace and mends what can be mended, while workers go on.

A snapshot gives suspicions; each is checked and mended in one step by `lua/repair/`, so that what only looked wrong
because time passed is left alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from callboard.broker.redis.catalogue import kind_of
from callboard.broker.redis.client.endpoint import Argument
from callboard.broker.redis.client.transport import RedisTransport

from .faults import Fault, Suspicion
from .snapshot import Photographer, Snapshot, each
from .survey import suspicions, unmendable

AT_ONCE = 50  # suspicions in one call, so that it ends soon
ENTRIES_AT_ONCE = 500  # entries of wait lists that one call looks at, and the most of one list
SEARCHED_AT_ONCE = 400_000  # entries of long lists that one call searches through for those that it moves
ROUNDS = 5  # mending one thing may bring another to light
WIDTH = 4  # values of one suspicion in a call


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
    await transport.admin.run("measure", ())  # writes nothing; fails where the books are kept in another way
    shot = await Photographer(transport).take()
    doubts = [*suspicions(shot), *[doubt async for doubt in _everlasting(transport, shot)]]
    faults = [fault async for fault in _checked(transport, mode, _parts(doubts, shot))]
    return (*faults, *unmendable(shot))


async def _everlasting(transport: RedisTransport, shot: Snapshot) -> AsyncIterator[Suspicion]:
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


def _parts(doubts: Sequence[Suspicion], shot: Snapshot) -> Iterator[list[Suspicion]]:
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


def _weight(doubt: Suspicion, shot: Snapshot) -> int:
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
