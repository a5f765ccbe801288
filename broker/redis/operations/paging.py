"""Reading what may be large in small answers, so that no call keeps the server from others."""

from __future__ import annotations

from callboard.broker.redis.client.transport import RedisTransport

PAGE = 1000  # members of a hash or set in one answer


async def pages(transport: RedisTransport, command: str, suffix: str) -> list[bytes]:
    """A hash (HSCAN: field, value, ...) or a set (SSCAN) of any size, each member once."""
    found: list[bytes] = []
    cursor: bytes | int = 0
    while True:
        cursor, page = await transport.admin.command(
            command, transport.keys.of(suffix), cursor, "COUNT", PAGE
        )
        found += page
        if int(cursor) == 0:
            break
    if command == "SSCAN":
        return list(dict.fromkeys(found))
    return [value for pair in dict(zip(found[::2], found[1::2], strict=True)).items() for value in pair]
