"""Outcomes as the commit of a turn wants them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

from .delivery import Delivery
from .outcome import NOTHING, Commit, DeadLetter, Outcome, Retry, Wait
from .redis.lane import Done


def as_done(delivery: Delivery, outcome: Outcome, is_free: bool, dedupe_window: float) -> Done:
    """The mode letters and their arguments; their order is the one in step.lua.

    Args:
        delivery: what was handled.
        outcome: how it ended.
        is_free: the worker holds nothing more of its key.
        dedupe_window: seconds that idempotency ids are remembered.
    """
    more = "" if is_free else "M"
    if outcome is NOTHING and not delivery.tries and delivery.claim is None:
        return Done(delivery, "C" + more, ())
    if isinstance(outcome, Commit):
        return _committed(delivery, outcome, more, int(dedupe_window * 1000))
    if isinstance(outcome, DeadLetter):
        return _dead(delivery, outcome, "D" + more, ())
    if isinstance(outcome, Wait):
        return _dead(delivery, outcome.otherwise, "W" + more, (outcome.message, outcome.version))
    if isinstance(outcome, Retry):
        delay = max(1, math.ceil(outcome.delay * 1000))
        reason = _writable(outcome.reason[:200])
        return Done(delivery, "R" + more, (delay, delivery.attempt, delivery.first_tried, reason))
    return Done(delivery, "L" + more, ())


def _committed(delivery: Delivery, outcome: Commit, more: str, window: int) -> Done:
    mode = "C" + more
    if delivery.tries:
        mode += "T"
    extras: list[Any] = []
    if outcome.unless_cancelled is not None:
        mode += "X"
        extras.append(outcome.unless_cancelled)
    if outcome.once_of is not None:
        mode += "K"
        extras.append(outcome.once_of)
    if outcome.state is not None:
        mode += "S"
        extras += outcome.state
    if outcome.claims or delivery.claim is not None:
        mode += "B"
        extras += (delivery.claim or "", len(outcome.claims), *chain.from_iterable(outcome.claims))
    if outcome.reply is not None:
        mode += "P"
        extras += outcome.reply
    if outcome.outgoing:
        mode += _outgoing(outcome.outgoing, extras, window)
    return Done(delivery, mode, extras)


def _outgoing(postings: Sequence[Any], extras: list[Any], window: int) -> str:
    """Adds postings to the arguments; returns the letter for it."""
    identified = any(posting.once for posting in postings)
    extras += (window, len(postings)) if identified else (len(postings),)
    for posting in postings:
        if identified:
            extras.append(posting.once)
        extras += (posting.stream, posting.due, *posting.values)
    return "I" if identified else "O"


def _dead(delivery: Delivery, outcome: DeadLetter, mode: str, before: Sequence[Any]) -> Done:
    error = outcome.error
    shown = f"{error.type}: {error.message}" if error else ""
    trace = error.traceback if error else ""
    texts = (_writable(outcome.reason), _writable(shown), _writable(trace))
    extras: list[Any] = [*before, *texts, delivery.attempt, delivery.first_tried]
    if outcome.reply is not None:
        mode += "P"
        extras += outcome.reply
    return Done(delivery, mode, extras)


def _writable(text: str) -> bytes:
    """The text of an error may have anything in it, such as a file name that is not UTF-8."""
    return text.encode("utf-8", "backslashreplace")
