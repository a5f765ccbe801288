"""Which server it is, and whether it is new enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from callboard.broker.redis.operations.doctor.finding import Finding, error, info, ok, warning
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 10

Version = tuple[int, int, int]
Product = Literal["Redis", "Valkey"]

OLDEST: Final = (7, 0, 0)
MAINTAINED_FROM: Final = (
    7,
    2,
    0,
)  # older branches get no fixes any more; which newer ones do, their projects say


IN_MEMORY: Final = warning(
    "the server is the stand-in of memory:// URLs",
    "everything is gone when this process ends, and no other process can take part",
    "use it for tests only: give a redis:// URL, or none for the embedded server",
)


async def examine(subject: Subject) -> Sequence[Finding]:
    """The version, and whether its branch was given up."""
    if subject.is_in_memory:
        return [IN_MEMORY]
    facts = await subject.info()
    product, version = server_of(facts)
    shown = f"{product} {'.'.join(map(str, version))}"
    if version < OLDEST:
        why = "the functions that deliver messages need Redis 7.0 or Valkey"
        return [error(f"{shown} is too old", why, "upgrade the server")]
    running = ok(f"{shown}, {facts.get('redis_mode', 'standalone')}")
    return [running] if version >= MAINTAINED_FROM else [running, _given_up(shown)]


def _given_up(shown: str) -> Finding:
    return info(
        f"{shown} gets no fixes from its project any more",
        "holes that were found since are open, unless your distribution has patched its build",
        "upgrade to a version that redis.io or valkey.io lists as supported",
    )


def server_of(facts: Mapping[str, str]) -> tuple[Product, Version]:
    """Product and version by the fields of INFO; Valkey names the version of Redis that it is compatible with as well."""
    product: Product = "Valkey" if "valkey_version" in facts else "Redis"
    text = facts.get("valkey_version") or facts.get("redis_version") or "0.0.0"
    parts = [int("".join(filter(str.isdigit, part)) or 0) for part in text.split("-")[0].split(".")]
    major, minor, patch = [*parts, 0, 0, 0][:3]
    return product, (major, minor, patch)
