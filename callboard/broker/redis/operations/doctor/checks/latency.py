"""How long a round trip takes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from callboard.broker.redis.operations.doctor.finding import Finding, info, ok, warning
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 50

TRIPS = 20
SLOW, VERY_SLOW = 5.0, 50.0  # ms


async def examine(subject: Subject) -> Sequence[Finding]:
    """The middle one of some PINGs."""
    taken: list[float] = []
    for _ in range(TRIPS):
        before = time.perf_counter()
        await subject.command("PING")
        taken.append((time.perf_counter() - before) * 1000)
    taken.sort()
    middle, worst = taken[TRIPS // 2], taken[-1]
    shown = f"a round trip takes {middle:.2f} ms, the slowest of {TRIPS} took {worst:.2f} ms"
    if middle < SLOW:
        return [ok(shown)]
    why = "each worker's turn and each publish waits for one"
    if middle < VERY_SLOW:
        return [info(shown, why, "run workers near the server where speed matters")]
    return [
        warning(shown, why, "look for a loaded network or slow commands: redis-cli --latency, SLOWLOG GET 10")
    ]
