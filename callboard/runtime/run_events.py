"""Events of runs as they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callboard.broker import BrokerSettings, MessageRegistry
from callboard.broker.encoding.limits import Limits
from callboard.broker.runs import RunEvent, RunWrite

from .errors import EventTooLargeError


def write_of(
    run: str, events: Sequence[Any], registry: MessageRegistry, settings: BrokerSettings
) -> RunWrite:
    """Events that are added to a run together.

    Raises:
        EventTooLargeError: One of them is.
    """
    limits = Limits.of(settings)
    encoded = [encoded_event(event, registry, limits) for event in events]
    return RunWrite(run, encoded, settings.run_events, int(settings.run_retention * 1000))


def encoded_event(event: Any, registry: MessageRegistry, limits: Limits) -> RunEvent:
    """One event as it is written.

    Raises:
        EventTooLargeError: It is.
    """
    kind = registry.entry_for(event)
    body = kind.encode(event, limits)
    if len(body) > limits.max_bytes:
        raise EventTooLargeError(len(body), limits.max_bytes)
    return RunEvent(kind.name, kind.version, body)
