"""Which namespaces there are on a server."""

from __future__ import annotations

from collections.abc import AsyncIterator

from callboard.broker.redis.client.scans import scan
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import Keys

MOST_PAGES = 200  # looked at
MARKS = ("config", "types", "topics")  # one of them is in every namespace that was used


async def exists(transport: RedisTransport) -> bool:
    """Whether there is anything in the transport's namespace.

    Raises:
        CommandError: the user may not look for keys.
    """
    names = [transport.keys.of(suffix) for suffix in MARKS]
    if await transport.admin.command("EXISTS", *names):
        return True
    async for _ in _names(transport, transport.keys.of("*")):
        return True
    return False


async def known(transport: RedisTransport) -> tuple[str, ...]:
    """The namespaces of the server, by name; on one with more than 200,000 keys perhaps not all of them.

    Raises:
        CommandError: the user may not look for keys.
    """
    first, last = Keys("any").of("config").split("any")
    found = [name async for name in _names(transport, f"{first}*{last}")]
    return tuple(sorted({name[len(first) : -len(last)] for name in found}))


async def _names(transport: RedisTransport, pattern: str) -> AsyncIterator[str]:
    looked_at = 0
    async for names in scan(transport.admin, "SCAN", pattern=pattern):
        for name in names:
            yield name.decode(errors="replace")
        looked_at += 1
        if looked_at == MOST_PAGES:
            return
