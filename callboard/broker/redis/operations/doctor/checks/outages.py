"""Whether messages wait for something outside to be there again."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.broker.redis.operations.doctor.finding import Finding, ok, warning
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 105


async def examine(subject: Subject) -> Sequence[Finding]:
    """Messages that wait for an outage to end."""
    view = await subject.overview()
    if not view.outages:
        return [ok("no message waits for an outage to end")]
    return [
        warning(
            f"{one.type}: {one.messages} have been waiting for an outage to end for {(view.at - one.since) / 1000:.0f} s: "
            f"{one.error}",
            "what comes behind them waits too, and what waits longer than retry_outage becomes a dead letter",
            "end it as its error says; then they go on by themselves",
        )
        for one in view.outages
    ]
