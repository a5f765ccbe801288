"""Function libraries of other versions on the server."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.broker.redis.operations.doctor.finding import Finding, info, ok, some
from callboard.broker.redis.operations.doctor.subject import Subject
from callboard.broker.redis.operations.libraries import old_libraries

ORDER = 65


async def examine(subject: Subject) -> Sequence[Finding]:
    """Names them."""
    names = await old_libraries(subject.transport)
    if not names:
        return [ok("the server has no functions of other versions")]
    return [
        info(
            f"the server has the functions of {len(names)} other versions of Callboard: {some(names)}",
            "each takes about 0.6 MB; processes of two versions may be running beside each other",
            "when all processes have this version: callboard repair --libraries --yes",
        )
    ]
