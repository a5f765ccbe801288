"""All of what may be large, read in small answers."""

from __future__ import annotations

from callboard.broker.redis.client.scans import scan
from callboard.broker.redis.client.transport import RedisTransport


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
    parts = scan(transport.admin, command, transport.keys.of(suffix), pattern=pattern)
    found = [value async for part in parts for value in part]
    if command == "SSCAN":
        return list(dict.fromkeys(found))
    return [value for pair in dict(zip(found[::2], found[1::2], strict=True)).items() for value in pair]
