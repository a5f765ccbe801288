"""Delayed messages and agents that back off: whether they come in time."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.broker.redis.operations.doctor.finding import Finding, error, ok, warning
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 100

LATE = 5000  # ms


async def examine(subject: Subject) -> Sequence[Finding]:
    """Timers that are due and were not sent."""
    view = await subject.overview()
    late = int(await subject.of("ZCOUNT", "timers", "-inf", view.at - LATE))
    if not late:
        return [ok(f"{view.timers} timers, none is late")]
    shown = f"{late} timers are more than {LATE // 1000} s late"
    why = "delayed messages and second attempts are not sent"
    if view.workers:
        return [error(shown, why, "a worker is alive and should send them: look at its log, then restart it")]
    return [warning(shown, why, "start any worker of the namespace: it sends them at once")]
