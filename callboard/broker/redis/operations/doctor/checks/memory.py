"""Whether the server may throw messages away, and how full it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from callboard.broker.redis.operations.doctor.finding import Finding, error, info, ok, warning
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 30

FULL, NEARLY = 0.95, 0.8  # parts of maxmemory


async def examine(subject: Subject) -> Sequence[Finding]:
    """Eviction policy, and memory used against the limit."""
    if subject.is_in_memory:
        return []
    facts = await subject.info()
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        eviction = ok("maxmemory-policy noeviction: nothing is thrown away")
    else:
        eviction = error(
            f"maxmemory-policy {policy}",
            "when memory is full the server deletes keys by itself: messages, states and leases vanish without a trace",
            "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in its file",
        )
    return [eviction, _usage(facts), *_evicted(facts)]


def _usage(facts: Mapping[str, str]) -> Finding:
    used, limit = int(facts.get("used_memory", 0)), int(facts.get("maxmemory", 0))
    if not limit:
        return info(
            f"{megabytes(used)} used, no limit",
            "without maxmemory the operating system kills the server when memory ends",
            "redis-cli CONFIG SET maxmemory <bytes>: then publishers get OverloadedError and commits go on",
        )
    part = used / limit
    shown = f"{megabytes(used)} of {megabytes(limit)} used ({part:.0%})"
    if part < NEARLY:
        return ok(shown)
    advice = "see what waits: callboard status; raise maxmemory, add workers, or set a lower `retain`"
    if part < FULL:
        return warning(shown, "publishers are refused when it is full", advice)
    return error(shown, "publishers are refused now; commits go on and make room", advice)


def _evicted(facts: Mapping[str, str]) -> Sequence[Finding]:
    count = int(facts.get("evicted_keys", 0))
    if not count:
        return []
    return [
        error(
            f"{count} keys were evicted since the server started",
            "each may have been a message, a state or a lease",
            "set maxmemory-policy noeviction, then see what is broken: callboard repair",
        )
    ]


def megabytes(number: int) -> str:
    """A size for people."""
    return f"{number / 1_000_000:.1f} MB"
