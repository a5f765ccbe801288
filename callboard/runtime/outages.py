"""An outage as those are told of it who wait for a handler: since when, how often was asked, and when it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

from callboard.broker.outcome import Retry

from .execution import Execution, current

STEP: Final = "callboard.outage"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a handler waits for does not answer.

    Attributes:
        since: when a request failed first.
        asked: how often was asked since, in all attempts at the message.
        next_at: when the handler runs again.
    """

    since: datetime
    asked: int
    next_at: datetime


async def waiting_after(error: BaseException) -> Waiting | None:
    """How long the message has waited, for a handler that is about to end with `error`.

    Returns:
        None when it is not tried again, such as a request, to which the error is the answer.
    """
    execution = current.get()
    if execution is None or execution.is_over or execution.context.is_rpc:
        return None
    outcome = execution.outcome_of(error)
    if not isinstance(outcome, Retry):
        return None
    now = datetime.now(UTC)
    since, asked = await _so_far(execution, now)
    return Waiting(since, asked, now + timedelta(seconds=outcome.delay))


async def _so_far(execution: Execution, now: datetime) -> tuple[datetime, int]:
    """When it failed first since the last answer, and how many requests were made since; this attempt is recorded."""
    asking, is_recorded = execution.asking, False

    async def note() -> list[float]:
        nonlocal is_recorded
        is_recorded = True
        return [now.timestamp(), max(1, asking.failed)]

    since, asked = now, 0
    for number in count(1):
        # Kept with the message: another process may have had it before.
        at, times = await execution.context.once(f"{STEP}:{asking.answered}:{number}", note)
        since, asked = min(since, datetime.fromtimestamp(at, UTC)), asked + int(times)
        if is_recorded:
            break
    return since, asked
