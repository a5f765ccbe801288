"""How one delivery ended, as a value. The consumer makes it happen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from .claims import Claim


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """What went wrong. `traceback` may be ""."""

    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """It was handled.

    Attributes:
        reply: process, call id or "", id, type, from, head, body; None when nobody waits.
        state: new version and data of a persistent agent; None when it did not change.
        outgoing: postings that leave with this commit.
        once_of: id of the message whose results of ctx.once are no longer needed.
        unless_cancelled: id of the request; when it was cancelled in the meantime, nothing of this is written.
        alone: nothing else of the agent is handled before this is written; the server may change what it says.
        claims: the bytes that the reply and what is outgoing point to.
    """

    reply: tuple[Any, ...] | None = None
    state: tuple[int, bytes] | None = None
    outgoing: tuple[Any, ...] = ()
    once_of: str | None = None
    unless_cancelled: str | None = None
    alone: bool = False
    claims: tuple[Claim, ...] = ()


NOTHING = Commit()
"""It was handled, and there is nothing to write but that: how most deliveries end."""


@dataclass(frozen=True, slots=True)
class Retry:
    """It failed and is tried again after `delay` seconds; its key waits, others go on."""

    delay: float
    reason: str
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """It failed for good. `reply` tells a requester, as in Commit."""

    reason: str
    error: ErrorInfo | None = None
    reply: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """It was not finished here and counts no attempt."""

    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """This process does not know the message in this version: it waits for a worker that does.

    Attributes:
        message: its wire name.
        version: its version.
        otherwise: what it becomes when no process ever said that it knows the message in this version.
    """

    message: str
    version: int
    otherwise: DeadLetter


Outcome: TypeAlias = Commit | Retry | DeadLetter | Release | Wait
