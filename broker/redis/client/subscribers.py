"""Who subscribes to a topic, asked without making the topic known."""

from __future__ import annotations

from .connection import Link

LONGEST_PREFIX = 200  # characters, as in lua/shared/topics.lua


async def subscribers_of(link: Link, topic: str) -> frozenset[str]:
    """The agent types that get what is published to a topic type, also to one that nothing was published to yet.

    Raises:
        ServerUnavailableError: the server can't be reached.
        CommandError: this user of the server may not know.
    """
    line = await link.command("HGET", link.keys.of("topics"), topic)
    if line is not None:
        return frozenset(line.decode(errors="replace").split())
    prefixes = [topic[:length] for length in range(min(len(topic), LONGEST_PREFIX) + 1)]
    found = await link.command("HMGET", link.keys.of("prefixes"), *prefixes)
    return frozenset(name for types in found if types for name in types.decode(errors="replace").split())
