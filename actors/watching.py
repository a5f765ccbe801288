"""Tells telemetry listeners how each delivery went. Used only while somebody listens."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from broker.delivery import Delivery
from broker.outcome import Commit, DeadLetter, Outcome, Release, Retry, Wait
from broker.telemetry import DeadLettered, Handled, Released, Retried, Started, emit


async def watched(
    handle: Callable[[Delivery], Awaitable[Outcome]], delivery: Delivery, now_ms: int
) -> Outcome:
    """Handles a delivery and emits what happened.

    Args:
        handle: does the work.
        delivery: what to handle.
        now_ms: the server's time.
    """
    agent = f"{_text(delivery.raw_type)}/{_text(delivery.raw_key)}"
    published = int(delivery.entry.split(b"-", 1)[0])
    waited = max(0, now_ms - published) / 1000
    emit(Started, agent, _text(delivery.message_id), _text(delivery.message_type), delivery.attempt, waited)
    begun = time.monotonic()
    outcome = await handle(delivery)
    _tell(agent, delivery, outcome, time.monotonic() - begun)
    return outcome


def _tell(agent: str, delivery: Delivery, outcome: Outcome, seconds: float) -> None:
    name, kind = _text(delivery.message_id), _text(delivery.message_type)
    match outcome:
        case Commit():
            emit(Handled, agent, name, kind, seconds)
        case Retry():
            error = outcome.error.type if outcome.error else ""
            emit(Retried, agent, name, kind, delivery.attempt, outcome.delay, error)
        case DeadLetter():
            error = outcome.error.type if outcome.error else ""
            emit(DeadLettered, agent, name, kind, delivery.attempt, outcome.reason, error)
        case Release():
            emit(Released, agent, name, outcome.reason)
        case Wait():
            emit(Released, agent, name, f"{outcome.message} in version {outcome.version} is not known here")


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
