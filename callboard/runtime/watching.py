"""Tells telemetry listeners how each delivery went. Used only while one listens."""

from __future__ import annotations

import time
from collections.abc import Awaitable

from callboard.broker.delivery import Delivery
from callboard.broker.outcome import Commit, DeadLetter, Outcome, Release, Retry, Suspend, Wait
from callboard.broker.telemetry import (
    DeadLettered,
    Dropped,
    Handled,
    Released,
    Retried,
    Started,
    WaitsForAnswer,
    emit,
)


async def watched(handling: Awaitable[Outcome], delivery: Delivery) -> Outcome:
    """Awaits the handling of a delivery and emits how it ended."""
    begun = time.monotonic()
    outcome = await handling
    _tell(delivery, outcome, time.monotonic() - begun)
    return outcome


def tell_started(delivery: Delivery, now_ms: int) -> None:
    """A handler is about to run.

    Args:
        delivery: what it handles.
        now_ms: the server's time.
    """
    published = int(delivery.entry.split(b"-", 1)[0])
    waited = max(0, now_ms - published) / 1000
    envelope = delivery.envelope
    emit(Started, _agent(delivery), envelope.id, envelope.type, delivery.attempt, waited)


def _tell(delivery: Delivery, outcome: Outcome, seconds: float) -> None:
    agent, name, kind = _agent(delivery), delivery.envelope.id, delivery.envelope.type
    match outcome:
        case Commit(dropped=""):
            emit(Handled, agent, name, kind, seconds)
        case Commit():
            emit(Dropped, agent, name, kind, outcome.dropped)
        case Retry():
            error = outcome.error.type if outcome.error else ""
            emit(Retried, agent, name, kind, delivery.attempt, outcome.delay, error)
        case DeadLetter():
            error = outcome.error.type if outcome.error else ""
            emit(DeadLettered, agent, name, kind, delivery.attempt, outcome.reason, error)
        case Release():
            emit(Released, agent, name, outcome.reason)
        case Suspend():
            emit(WaitsForAnswer, agent, name, len(outcome.asked))
        case Wait():
            emit(Released, agent, name, f"{outcome.message} in version {outcome.version} is not known here")


def _agent(delivery: Delivery) -> str:
    return f"{delivery.raw_type.decode(errors='replace')}/{delivery.raw_key.decode(errors='replace')}"
