"""What readers of a run see while a member, or who chooses the next one, waits for a server that is away."""

from __future__ import annotations

from typing import Final

from callboard.broker.errors import is_outage
from callboard.messages.events import OutageEvent
from callboard.models.errors import ModelUnansweredError
from callboard.runtime.outages import waiting_after

MOST_ERROR: Final = 300  # characters of an error that readers see


async def outage_after(name: str, error: BaseException) -> OutageEvent | None:
    """The event for a handler that is about to end with `error`, and runs again.

    Args:
        name: Who waits.
        error: What is away.

    Returns:
        None where nothing is away, or it is not waited for.
    """
    if not (is_outage(error) or isinstance(error, ModelUnansweredError)):
        return None
    waiting = await waiting_after(error)
    if waiting is None:
        return None
    times = "once" if waiting.asked == 1 else f"{waiting.asked} times"
    content = (
        f"has no answer since {waiting.since:%Y-%m-%d %H:%M:%S} UTC, asked {times}, and begins its turn again at "
        f"{waiting.next_at:%H:%M:%S} UTC: {type(error).__name__}: {str(error)[:MOST_ERROR]}"
    )
    return OutageEvent(
        source=name, content=content, since=waiting.since, asked=waiting.asked, next_at=waiting.next_at
    )
