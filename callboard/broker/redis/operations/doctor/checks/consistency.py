"""Whether the books of the namespace agree: what `callboard repair` mends."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.broker.redis.operations.doctor.finding import Finding, Level, ok, some
from callboard.broker.redis.operations.doctor.subject import Subject
from callboard.broker.redis.operations.repair import KINDS, Fault

ORDER = 120


async def examine(subject: Subject) -> Sequence[Finding]:
    """One finding for each kind of fault."""
    by_kind: dict[tuple[str, bool], list[Fault]] = {}
    for fault in await subject.faults():
        by_kind.setdefault((fault.kind, fault.status == "stays"), []).append(fault)
    return [_finding(faults) for faults in by_kind.values()] or [ok("the books of the namespace agree")]


def _finding(faults: Sequence[Fault]) -> Finding:
    first = faults[0]
    what, why, serious = KINDS[first.kind]
    level = Level.ERROR if serious else Level.INFO if first.kind in ("ready", "unknown") else Level.WARNING
    shown = some(
        (f"{' '.join(name for name in fault.names if name)} ({fault.detail})" for fault in faults), 3
    )
    do = (
        "by hand: what is in brackets says why and how"
        if first.status == "stays"
        else "callboard repair --yes"
    )
    return Finding(level=level, what=f"{len(faults)} {what}: {shown}", why=why, do=do)
