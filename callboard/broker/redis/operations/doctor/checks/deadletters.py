"""Messages that failed for good."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.broker.redis.operations.doctor.finding import Finding, ok, warning
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 90


async def examine(subject: Subject) -> Sequence[Finding]:
    """How many there are, by agent type."""
    view = await subject.overview()
    found = [
        warning(
            f"{one.type}: {one.dead} dead letters",
            "these messages were not handled, and stay until they are replayed or discarded",
            f"callboard dead list {one.type} --namespace {view.namespace}; then dead replay, or dead discard",
        )
        for one in view.types
        if one.dead
    ]
    return found or [ok("no dead letters")]
