"""Which namespaces there are on a server."""

from __future__ import annotations

from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import Keys

PAGE = 1000  # keys that the server looks at in one call
MOST_PAGES = 200
MARKS = ("config", "types", "topics")  # what every namespace that was used has one of


async def exists(transport: RedisTransport) -> bool:
    """Whether anything was ever declared or published in the transport's namespace."""
    names = [transport.keys.of(suffix) for suffix in MARKS]
    return bool(await transport.admin.command("EXISTS", *names))


async def known(transport: RedisTransport) -> tuple[str, ...]:
    """The namespaces of the server, by name; on one with more than 200,000 keys perhaps not all of them.

    Raises:
        CommandError: the user may not look for keys.
    """
    first, last = Keys("any").of("config").split("any")
    found: set[str] = set()
    cursor: bytes | int = 0
    for _ in range(MOST_PAGES):
        cursor, names = await transport.admin.command(
            "SCAN", cursor, "MATCH", f"{first}*{last}", "COUNT", PAGE
        )
        found.update(name.decode(errors="replace")[len(first) : -len(last)] for name in names)
        if int(cursor) == 0:
            break
    return tuple(sorted(found))
