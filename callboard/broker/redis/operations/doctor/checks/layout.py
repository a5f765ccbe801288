"""Whether the namespace is kept in the way that this version of Callboard knows."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.broker.errors import LayoutError
from callboard.broker.redis.operations.doctor.finding import Finding, error, ok
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 5


async def examine(subject: Subject) -> Sequence[Finding]:
    """Asks a function that writes nothing: each looks at the layout first."""
    try:
        await subject.transport.admin.run("measure", ())
    except LayoutError as other:
        return [
            error(
                f"the namespace has layout {other.found}, and this version of Callboard knows layout {other.known} only",
                "no process of this version works with it; nothing in it was changed",
                "finish its work with the version that made it and use another namespace, or run that version",
            )
        ]
    return [ok("the namespace has the layout of this version")]
