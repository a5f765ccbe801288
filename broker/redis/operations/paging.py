"""Reading what may be large in small answers, so that no call keeps the server from others."""

from __future__ import annotations

from callboard.broker.redis.client.transport import RedisTransport

PAGE = 1000  # members of a hash or set in one answer


async def pages(transport: RedisTransport, command: str, suffix: str, pattern: str = "*") -> list[bytes]:
    """A hash (HSCAN: field, value, ...), a sorted set (ZSCAN: member, score, ...) or a set (SSCAN) of any size.

    Args:
        transport: Where.
        command: The command that reads it.
        suffix: Its Redis key.
        pattern: Of the fields or members, as the server reads patterns.

    Returns:
        Each field or member once.
    """
    found: list[bytes] = []
    cursor: bytes | int = 0
    while True:
        cursor, page = await transport.admin.command(
            command, transport.keys.of(suffix), cursor, "MATCH", pattern, "COUNT", PAGE
        )
        found += page
        if int(cursor) == 0:
            break
    if command == "SSCAN":
        return list(dict.fromkeys(found))
    return [value for pair in dict(zip(found[::2], found[1::2], strict=True)).items() for value in pair]
