"""Outcomes: how one delivery ended, as a value, and what is written to runs along with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from .envelope import Fence, Posting
from .errors import MARK


class ErrorInfo(NamedTuple):
    """An error as text. `traceback` may be ""."""

    type: str
    message: str
    traceback: str = ""


class LogChange(NamedTuple):
    """The change of one log of a persistent agent by a commit.

    Attributes:
        field: its name in the state.
        dropped: how many of its oldest items are removed.
        appended: items that come to its end, as JSON.
    """

    field: str
    dropped: int
    appended: Sequence[bytes]


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


class Commit(NamedTuple):
    """It was handled. A NamedTuple: a frozen dataclass takes three times as long to make, and most messages have one.

    The classes of the other outcomes are, since every process makes these classes: that takes a quarter of the time.

    Attributes:
        reply: the answer to a request; None when no process waits for one.
        state: new version and data of a persistent agent; None when it did not change.
        logs: of one whose state has logs, the new version and what is done to them; None when nothing of the state changed.
        outgoing: messages that leave with this commit.
        events: what is written to the streams of runs.
        once_of: id of the message whose results of ctx.once are no longer needed.
        unless_cancelled: id of the request; when it was cancelled in the meantime, nothing of this is written.
        alone: nothing else of the agent is handled before this is written; the server may change what it says.
        dropped: why it ended before its handler ran, such as `expired`; "" when the handler ran.
    """

    reply: Posting | None = None
    state: tuple[int, bytes] | None = None
    outgoing: tuple[Posting, ...] = ()
    once_of: str | None = None
    unless_cancelled: str | None = None
    alone: bool = False
    dropped: str = ""
    logs: tuple[int, Sequence[LogChange]] | None = None
    events: Sequence[RunWrite] = ()


def committed(
    reply: Posting | None,
    state: tuple[int, bytes] | None,
    outgoing: tuple[Posting, ...],
    once_of: str | None,
    logs: tuple[int, Sequence[LogChange]] | None,
    events: Sequence[RunWrite],
) -> Commit:
    """The outcome of most handlers. The tuple is handed over whole, as for an envelope: see there."""
    return tuple.__new__(Commit, (reply, state, outgoing, once_of, None, False, "", logs, events))


NOTHING = Commit()
"""It was handled, and there is nothing to write but that: how most deliveries end."""


class Retry(NamedTuple):
    """It failed and is tried again after `delay` seconds; its key waits, others go on.

    Attributes:
        delay: seconds.
        reason: the error as one line.
        error: what went wrong.
        waited: seconds, `delay` included, that it waits in all for an outage to end; then this was no attempt. None:
            it was one.
    """

    delay: float
    reason: str
    error: ErrorInfo | None = None
    waited: float | None = None


class DeadLetter(NamedTuple):
    """It failed for good. `reply` tells a requester, as in Commit."""

    reason: str
    error: ErrorInfo | None = None
    reply: Posting | None = None


class Release(NamedTuple):
    """It was not finished here and counts no attempt."""

    reason: str


class Wait(NamedTuple):
    """This process does not know the message in this version: it waits for a worker that does.

    Attributes:
        message: its wire name.
        version: its version.
        otherwise: what it becomes when no process ever said that it knows the message in this version.
    """

    message: str
    version: int
    otherwise: DeadLetter


class Suspend(NamedTuple):
    """Its handler asked something and runs again when an answer comes. Nothing is written, and no attempt is counted.

    Attributes:
        message_id: id of the message.
        asked: ids of the questions that had no answer.
        wake_at: when it runs again without one, server ms; None: never.
    """

    message_id: str
    asked: tuple[str, ...]
    wake_at: int | None = None


Outcome: TypeAlias = Commit | Retry | DeadLetter | Release | Wait | Suspend


def reason_of(retry: Retry) -> str:
    """The reason of another attempt, as it is kept."""
    return retry.reason if retry.waited is None else f"{MARK}{retry.waited * 1000:.0f} {retry.reason}"
