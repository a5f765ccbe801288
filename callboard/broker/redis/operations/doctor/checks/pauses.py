"""Pauses: work that waits because an operator said so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from callboard.broker.redis.operations.doctor.finding import Finding, info, ok
from callboard.broker.redis.operations.doctor.subject import Subject
from callboard.broker.redis.operations.views import Pause

ORDER = 75


async def examine(subject: Subject) -> Sequence[Finding]:
    """One finding for each pause."""
    view = await subject.overview()
    return [_finding(pause, view.namespace) for pause in view.paused] or [ok("nothing is paused")]


def _finding(pause: Pause, namespace: str) -> Finding:
    since = f" since {_shown(pause.since)}" if pause.since is not None else ""
    words = f"--topic {pause.name}" if pause.kind == "topic" else pause.name
    return info(
        f"{pause.kind} {pause.name} is paused{since}" + (f" by {pause.by}" if pause.by else ""),
        "its messages wait",
        f"callboard resume --namespace {namespace} {words}",
    )


def _shown(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
