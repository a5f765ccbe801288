"""Handing all events of a run to a processor."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from typing import Protocol

from .event import AsyncEventProcessorProtocol, Event, EventProcessorProtocol


class _Events(Protocol):
    @property
    def events(self) -> Iterable[Event]:
        """What happens."""
        ...


class _AsyncEvents(Protocol):
    @property
    def events(self) -> AsyncIterable[Event]:
        """What happens."""
        ...


def process_run_response(run_response: _Events, processor: EventProcessorProtocol) -> None:
    """Hand the events of a run to a processor, one after the other, until the run has ended.

    Args:
        run_response: What `run` returned, or anything with events.
        processor: Has a method for each type of events.

    Raises:
        EventTypeError: It has no method for one of the RFC's types (a TypeError).
    """
    for event in run_response.events:
        event.process(processor)


async def a_process_run_response(run_response: _AsyncEvents, processor: AsyncEventProcessorProtocol) -> None:
    """The same for async programs."""
    async for event in run_response.events:
        await event.a_process(processor)
