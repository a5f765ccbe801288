"""What is written to the stream of a run, for everybody who reads along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .envelope import Fence


class RunEvent(NamedTuple):
    """One event.

    Attributes:
        type: wire name of its class.
        version: version of its class.
        body: the encoded event.
    """

    type: str
    version: int
    body: bytes


class RunWrite(NamedTuple):
    """Events that are added together.

    Attributes:
        run: id of the run.
        events: in their order.
        most: about how many entries the stream keeps.
        kept_for: how long it is kept after this, ms.
        tag: of drafts; "" when these are none.
        settles: drafts whose tags begin with this are removed first; "" for none.
        since: number from which on these may stand.
        fence: of what leaves a handler before its commit.
    """

    run: str
    events: Sequence[RunEvent]
    most: int
    kept_for: int
    tag: str = ""
    settles: str = ""
    since: int = 0
    fence: Fence | None = None

    @property
    def size(self) -> int:
        """Bytes of the bodies."""
        return sum(len(event.body) for event in self.events)
