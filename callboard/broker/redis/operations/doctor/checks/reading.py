"""Entries read ahead of another stream that wait although all streams have passed them."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.broker.redis.operations.doctor.finding import Finding, ok, some, warning
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 110

OLD = 10_000  # ms


async def examine(subject: Subject) -> Sequence[Finding]:
    """Agent types whose oldest early entry is older than every cursor and was not taken for a while."""
    view = await subject.overview()
    if view.paused:
        return [ok("something is paused: what was read ahead may wait for it")]
    stuck = []
    for one in view.types:
        first = await subject.of("ZRANGE", f"early:{one.type}", 0, 0)
        if not first or not one.workers:
            continue
        entry = first[0].decode(errors="replace").rpartition(" ")[2]
        cursors = await subject.of("HVALS", f"cursor:{one.type}")
        behind_all = all(_order(entry) <= _order(cursor.decode()) for cursor in cursors)
        if behind_all and view.at - _order(entry)[0] > OLD:
            stuck.append(f"{one.type} ({entry})")
    if not stuck:
        return [ok("nothing that was read ahead is overdue")]
    return [
        warning(
            f"read ahead and not taken for more than {OLD // 1000} s: {some(stuck)}",
            "workers are alive and busy, or they hang; the messages behind wait as well",
            "look at `callboard status`: a worker that holds everything and runs nothing has to be restarted",
        )
    ]


def _order(entry: str) -> tuple[int, ...]:
    parts = entry.split("-")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else (0,)
