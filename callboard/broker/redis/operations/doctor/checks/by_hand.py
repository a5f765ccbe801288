"""What nothing of ours has written: it is left out where the books are read, so somebody has to say that it is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from callboard.broker.redis.operations.doctor.finding import Finding, error, ok
from callboard.broker.redis.operations.doctor.subject import Subject
from callboard.broker.redis.operations.numbers import number
from callboard.broker.redis.operations.paging import pages

ORDER = 85

NAMES: Final = ("topics", "types")
COUNTERS: Final = ("stats", "parked")  # of each agent type
PULSE: Final = ("pid", "started", "held", "running")  # what a worker says of itself in numbers


async def examine(subject: Subject) -> Sequence[Finding]:
    """Names that are no text and counters that are no numbers."""
    damaged = [suffix for suffix in NAMES if not all(map(_is_text, await _flat(subject, suffix)))]
    for name in (await _flat(subject, "types"))[::2]:
        for kind in COUNTERS:
            suffix = f"{kind}:{name.decode(errors='replace')}"
            if not all(number(value) is not None for value in (await _flat(subject, suffix))[1::2]):
                damaged.append(suffix)
    for worker in await subject.of("ZRANGE", "workers", 0, -1):
        suffix = f"worker:{worker.decode(errors='replace')}"
        if not all(
            value is None or number(value) is not None for value in await subject.of("HMGET", suffix, *PULSE)
        ):
            damaged.append(suffix)
    found = [
        error(
            f"`{suffix}` holds what can't be read",
            "the key was changed by hand: what is in it is left out, and may belong to a type that gets no messages",
            "HDEL what is not yours; docs/keys.md says what the key holds",
        )
        for suffix in damaged
    ]
    return found or [ok("names and counters can be read")]


async def _flat(subject: Subject, suffix: str) -> Sequence[bytes]:
    return await pages(subject.transport, "HSCAN", suffix)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
