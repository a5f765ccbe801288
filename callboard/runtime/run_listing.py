"""The list of runs: their streams, when they began, and their first and last event."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from callboard.broker import MessageRegistry
from callboard.broker.encoding.limits import Limits
from callboard.broker.errors import BrokerError
from callboard.broker.redis.client.run_reader import RunRecord, record_of
from callboard.broker.redis.client.transport import RedisTransport, literally
from callboard.broker.redis.keys import RUNS, run as run_suffix
from callboard.broker.redis.operations.numbers import time_of
from callboard.broker.redis.operations.paging import pages
from callboard.errors import SettingValueError

PAGE: Final = 100  # runs that are asked for at once
LISTED: Final = "runs listed"  # in `config`: older runs were put into the list

Place: TypeAlias = tuple[int, str]
"""When a run began, server ms, and its id."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run, as its stream says.

    Attributes:
        id: Of its stream; `read_run` reads it.
        began: When its first entry was written.
        changed: When its last entry was written.
        entries: How many the stream has, drafts included.
        first: Its first event; None: it can't be read here, or was cut off.
        last: Its last event; None: it can't be read here.
    """

    id: str
    began: datetime
    changed: datetime
    entries: int
    first: Any
    last: Any


async def listed_runs(
    transport: RedisTransport,
    registry: MessageRegistry,
    limit: int,
    before: str | ListedRun | None,
    begins_with: str,
) -> list[ListedRun]:
    """See RuntimeRuns.list_runs."""
    found: list[ListedRun] = []
    await _list_older(transport)
    place = None if before is None else await _place(transport, before)
    named = await _named(transport, begins_with) if begins_with else None
    while len(found) < limit:
        most = min(PAGE, limit - len(found))
        page = await _page(transport, place, most) if named is None else _behind(named, place)[:most]
        if not page:
            break
        place = page[-1]
        runs = await asyncio.gather(*(_listed(transport, registry, name, at) for at, name in page))
        found += [run for run in runs if run is not None]
    return found


async def _named(transport: RedisTransport, beginning: str) -> list[Place]:
    """The runs whose ids begin like this, the newest first: only names are read, in small calls."""
    members = await pages(transport, "ZSCAN", RUNS, literally(beginning) + "*")
    return sorted(zip(map(time_of, members[1::2]), map(_name, members[::2]), strict=True), reverse=True)


def _behind(places: list[Place], place: Place | None) -> list[Place]:
    return [one for one in places if place is None or one < place]


async def _list_older(transport: RedisTransport) -> None:
    """Puts the runs into the list that began before there was one; once in a namespace."""
    config, command = transport.keys.of("config"), transport.admin.command
    if await command("HEXISTS", config, LISTED):
        return
    for name in await transport.names_after(transport.keys.of(run_suffix("")), "stream"):
        first = await command("XRANGE", transport.keys.of(run_suffix(name)), "-", "+", "COUNT", 1)
        if first:
            await command("ZADD", transport.keys.of(RUNS), "NX", record_of(first[0]).at, name)
    await command("HSET", config, LISTED, "1")


async def _place(transport: RedisTransport, run: str | ListedRun) -> Place:
    if isinstance(run, ListedRun):
        return round(run.began.timestamp() * 1000), run.id
    score = await transport.admin.command("ZSCORE", transport.keys.of(RUNS), run)
    if score is None:
        raise SettingValueError("before", repr(run), "the id of a run that is listed")
    return int(float(score)), run


async def _page(transport: RedisTransport, place: Place | None, most: int) -> list[Place]:
    """The runs behind this one, the newest first; of those that began in one ms, in the order of their ids."""
    key, skipped = transport.keys.of(RUNS), 0
    end = "+inf" if place is None else place[0]
    while True:
        options = ("BYSCORE", "REV", "LIMIT", skipped, most, "WITHSCORES")
        flat = await transport.admin.command("ZRANGE", key, end, "-inf", *options)
        page = list(zip(map(time_of, flat[1::2]), map(_name, flat[::2]), strict=True))
        behind = _behind(page, place)
        if behind or not page:
            return behind
        skipped += most


def _name(member: bytes) -> str:
    return member.decode("utf-8", "surrogateescape")


def _is_text(name: str) -> bool:
    """Whether it is one of ours; what a person has added to the list may be any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _listed(
    transport: RedisTransport, registry: MessageRegistry, name: str, began: int
) -> ListedRun | None:
    if not _is_text(name):
        return None
    key, command = transport.keys.of(run_suffix(name)), transport.admin.command
    length, first, last = await asyncio.gather(
        command("XLEN", key),
        command("XRANGE", key, "-", "+", "COUNT", 1),
        command("XREVRANGE", key, "0-18446744073709551615", "-", "COUNT", 1),
    )
    if not last:
        return None  # its stream has gone, or holds nothing of ours
    newest = record_of(last[0])
    oldest = record_of(first[0])
    return ListedRun(
        id=name,
        began=_time(began),
        changed=_time(newest.at),
        entries=length,
        first=_event(transport, registry, oldest),
        last=_event(transport, registry, newest),
    )


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _event(transport: RedisTransport, registry: MessageRegistry, record: RunRecord) -> Any:
    try:
        return registry.decode(record.type, record.version, record.body, Limits.of(transport.settings))
    except BrokerError:  # the list says what it can; reading the run says what is wrong
        return None
