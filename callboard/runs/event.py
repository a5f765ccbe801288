"""What all events of a run have in common, and how they find the method of a processor that is for them."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias
from uuid import UUID, uuid4

from pydantic import BaseModel, Field

from .errors import EventTypeError

EventType: TypeAlias = Literal[
    "input_request",
    "async_input_request",
    "input_response",
    "agent_message",
    "output",
    "system",
    "tool_call",
    "tool_result",
    "stream",
    "speaker_selected",
    "handoff",
    "usage",
    "error",
    "completed",
]
"""The types; the first six are those of AG2's RFC 001."""

MISSING: Final = "it has no method {name}"


def _now() -> datetime:
    return datetime.now(UTC)


class Event(BaseModel, ABC, frozen=True):
    """Something that happened in a run.

    Attributes:
        uuid: Unique; the same for all who read the event.
        type: Which kind it is.
        run_id: The run.
        number: Its place: numbers of a run rise strictly, with gaps; all readers see the same. 0: it is of no run.
        at: When it happened, with a time zone.
        source: Name of the agent, team or person it comes from; "": of the run itself.
        is_draft: Whether it shows work that is under way, and that counts only when its turn is committed; then it comes
            again, with the number that counts. Only readers who ask for drafts get it.
    """

    uuid: UUID = Field(default_factory=uuid4)
    type: EventType
    run_id: str = ""
    number: int = 0
    at: datetime = Field(default_factory=_now)
    source: str = ""
    is_draft: bool = False

    @property
    @abstractmethod
    def text(self) -> str:
        """The event as a sentence for people."""
        ...

    def process(self, event_processor: EventProcessorProtocol) -> Any:
        """Hand it to the method of a processor that is for its type: ``process_<type>_event``.

        Returns:
            What the method returns.

        Raises:
            EventTypeError: There is no such method (a TypeError).
        """
        return self._method_of(event_processor, "process_{type}_event")(self)

    async def a_process(self, event_processor: AsyncEventProcessorProtocol) -> Any:
        """The same with ``a_process_<type>_event``, which is awaited."""
        result = self._method_of(event_processor, "a_process_{type}_event")(self)
        return await result if inspect.isawaitable(result) else result

    def _method_of(self, processor: object, pattern: str) -> Callable[[Event], Any]:
        name = pattern.format(type=self.type)
        method: Callable[[Event], Any] | None = getattr(processor, name, None)
        if method is None:
            raise EventTypeError(type(processor).__name__, self.type, MISSING.format(name=name))
        return method


class FurtherEvent(Event, ABC, frozen=True):
    """The base of the types that are not in the RFC. A processor without a method for one takes it for a system event.

    Attributes:
        usual: The type as which it is taken then; one for which there is no method either is passed over.
    """

    usual: ClassVar[str] = "system"

    @property
    def value(self) -> str:
        """The event as a sentence, as a SystemEvent has it."""
        return self.text

    def _method_of(self, processor: object, pattern: str) -> Callable[[Event], Any]:
        own: Callable[[Event], Any] | None = getattr(processor, pattern.format(type=self.type), None)
        other: Callable[[Event], Any] = getattr(processor, pattern.format(type=self.usual), _pass_over)
        return other if own is None else own


def _pass_over(event: Event) -> None:
    """A processor that takes no system events either."""


class EventProcessorProtocol(Protocol):
    """What takes the events of a run, a method for each type.

    There may be methods for the other types, too, such as ``process_tool_call_event``; without one such an event goes to
    `process_system_event`.
    """

    def process_input_request_event(self, event: Any) -> Any:
        """A person is asked: `event.respond` answers."""
        ...

    def process_input_response_event(self, event: Any) -> Any:
        """A question was answered."""
        ...

    def process_agent_message_event(self, event: Any) -> Any:
        """Somebody said something."""
        ...

    def process_output_event(self, event: Any) -> Any:
        """Something was put out."""
        ...

    def process_system_event(self, event: Any) -> Any:
        """Something that people may want to know."""
        ...


class AsyncEventProcessorProtocol(Protocol):
    """The same for async methods, whose names begin with a_."""

    async def a_process_async_input_request_event(self, event: Any) -> Any:
        """A person is asked: `await event.a_respond` answers."""
        ...

    async def a_process_input_response_event(self, event: Any) -> Any:
        """A question was answered."""
        ...

    async def a_process_agent_message_event(self, event: Any) -> Any:
        """Somebody said something."""
        ...

    async def a_process_output_event(self, event: Any) -> Any:
        """Something was put out."""
        ...

    async def a_process_system_event(self, event: Any) -> Any:
        """Something that people may want to know."""
        ...
