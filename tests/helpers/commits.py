"""Commits as the Lua functions take them, for tests that say themselves what a worker commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from callboard.broker.envelope import Delivery
from callboard.broker.errors import EncodeError
from callboard.broker.outcome import Outcome
from callboard.broker.redis.client.endpoint import Argument
from callboard.broker.redis.client.lane import commit_of
from callboard.broker.redis.client.wire import pack


class Done(NamedTuple):
    """A delivery, the mode of its commit, and what the marks of the mode bring."""

    delivery: Delivery
    mode: str
    extras: Sequence[Argument]


def as_done(delivery: Delivery, outcome: Outcome, is_last: bool, dedupe_window: float) -> Done:
    """The commit that a worker would write."""
    return Done(delivery, *commit_of(delivery, outcome, is_last, dedupe_window))


def is_sendable(done: Done) -> bool:
    """Whether its arguments can be written."""
    try:
        pack(done.extras)
    except EncodeError:
        return False
    return True
