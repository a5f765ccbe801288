"""Schedules: whether what is due is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from callboard.broker.redis.client.schedules import ScheduleStore
from callboard.broker.redis.operations.doctor.finding import Finding, ok, warning
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 102

LATE: Final = 120_000  # ms


async def examine(subject: Subject) -> Sequence[Finding]:
    """Schedules that are due and not paused, and were not sent."""
    schedules = await ScheduleStore(subject.transport.admin).all()
    now = (await subject.overview()).at
    late = [one.name for one in schedules if one.paused is None and now - one.due > LATE]
    if not late:
        return [ok(f"{len(schedules)} schedules, none is late")]
    return [
        warning(
            f"schedules that are more than {LATE // 60_000} min late: {', '.join(late)}",
            "what they send is not sent",
            "start a worker of their app, or look at its log; `callboard schedules remove` takes away what no app declares",
        )
    ]
