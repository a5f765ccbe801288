"""The messages that wait for an outage to end: of something outside that their handlers need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from callboard.broker.outages import error_in
from callboard.broker.redis.client.scans import scan
from callboard.broker.redis.client.transport import RedisTransport

from .numbers import moment
from .views import Outage

MOST_PAGES: Final = 5
"""Of tried entries that are looked at for each type: what waits is counted, and a long list need not be."""

_TRIED: Final = re.compile(rb"\d+ (\d+) \d+ (.*)", re.DOTALL)


async def outages(transport: RedisTransport, types: Sequence[str]) -> tuple[Outage, ...]:
    """The outages that messages of these agent types wait for, by type; a type that waits for none is left out."""
    found = [await _outage(transport, agent_type) for agent_type in types]
    return tuple(one for one in found if one is not None)


async def _outage(transport: RedisTransport, agent_type: str) -> Outage | None:
    waiting = list(_waiting(await _tried(transport, agent_type)))
    if not waiting:
        return None
    since, error = min(waiting)
    return Outage(type=agent_type, messages=len(waiting), since=since, error=error)


async def _tried(transport: RedisTransport, agent_type: str) -> Iterable[bytes]:
    """What is known of tried entries, each once."""
    found: dict[bytes, bytes] = {}
    looked_at = 0
    async for page in scan(transport.admin, "HSCAN", transport.keys.of(f"tries:{agent_type}")):
        found |= zip(page[::2], page[1::2], strict=True)
        looked_at += 1
        if looked_at == MOST_PAGES:
            break
    return found.values()


def _waiting(lines: Iterable[bytes]) -> Iterable[tuple[int, str]]:
    for line in lines:
        tried = _TRIED.fullmatch(line)
        error = error_in(tried[2].decode(errors="replace")) if tried else None
        since = moment(tried[1]) if tried else None
        if since is not None and error is not None:
            yield since, error
