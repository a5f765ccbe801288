"""Who subscribes to topics, asked without making the topics known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .connection import Link

LONGEST_PREFIX = 200  # characters, as in lua/shared/topics.lua


async def subscribers_of(link: Link, topics: Sequence[str]) -> dict[str, frozenset[str]]:
    """The agent types that get what is published to topic types, also to those that nothing was published to yet.

    Args:
        link: the connection to the server.
        topics: one or more, which are asked about together.

    Raises:
        ServerUnavailableError: the server can't be reached.
        CommandError: this user of the server may not know.
    """
    found = await _read(link, "topics", topics)
    new = [topic for topic in topics if found[topic] is None]
    prefixes = {topic[:length] for topic in new for length in range(min(len(topic), LONGEST_PREFIX) + 1)}
    types = await _read(link, "prefixes", sorted(prefixes)) if new else {}
    return {
        topic: _known(line) if line is not None else _prefixed(topic, types) for topic, line in found.items()
    }


async def _read(link: Link, name: str, fields: Sequence[str]) -> dict[str, bytes | None]:
    values = await link.command("HMGET", link.keys.of(name), *fields)
    return dict(zip(fields, values, strict=True))


def _prefixed(topic: str, types: Mapping[str, bytes | None]) -> frozenset[str]:
    lines = (types[topic[:length]] for length in range(min(len(topic), LONGEST_PREFIX) + 1))
    return frozenset().union(*(_known(line) for line in lines if line))


def _known(line: bytes) -> frozenset[str]:
    return frozenset(line.decode(errors="replace").split())
