"""What is paused: work that waits because somebody said so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ..finding import Finding, info, ok
from ..subject import Subject

ORDER = 75


async def examine(subject: Subject) -> Sequence[Finding]:
    """One finding for each pause."""
    flat = await subject.of("HGETALL", "paused")
    lines = [value.decode(errors="replace") for value in flat]
    namespace = subject.settings.namespace
    found = [_finding(lines[i], lines[i + 1], namespace) for i in range(0, len(lines), 2)]
    return found or [ok("nothing is paused")]


def _finding(target: str, since: str, namespace: str) -> Finding:
    ms, _, who = since.partition(" ")
    when = (
        datetime.fromtimestamp(int(ms) / 1000, UTC).isoformat(timespec="seconds") if ms.isdecimal() else "?"
    )
    kind, _, name = target.partition(" ")
    words = f"--topic {name}" if kind == "topic" else name
    return info(
        f"{kind} {name} is paused since {when}" + (f" by {who}" if who else ""),
        "its messages wait",
        f"callboard resume --namespace {namespace} {words}",
    )
