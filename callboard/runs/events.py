"""Events of a run and the protocol of their processors. The first six types are those of AG2's RFC 001."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol, TypeAlias, TypeGuard
from uuid import UUID, uuid4

from pydantic import BaseModel, Field, JsonValue, PrivateAttr, TypeAdapter

from callboard.errors import DeclarationError, MisuseError

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
    "interrupted",
    "speaker_selected",
    "handoff",
    "usage",
    "error",
    "completed",
]
"""The types; the first six are those of AG2's RFC 001."""

MISSING: Final = "it has no method {name}"


def _not_taken(processor: object, type: str, reason: str) -> DeclarationError:
    """The error of a processor that can't take an event."""
    name = processor.__class__.__name__
    return DeclarationError(f"{name} can't process an event of the type {type!r}: {reason}")


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
            DeclarationError: There is no such method (a TypeError).
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
            raise _not_taken(processor, self.type, MISSING.format(name=name))
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
    """Processor of the events of a run, with a method for each type.

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
        """An agent has said something."""
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
        """An agent has said something."""
        ...

    async def a_process_output_event(self, event: Any) -> Any:
        """Something was put out."""
        ...

    async def a_process_system_event(self, event: Any) -> Any:
        """Something that people may want to know."""
        ...


Message: TypeAlias = dict[str, Any]
"""A message as plain data: "text" and "sender", and what group chats have: "content", "role", "name"."""

NOT_SYNC: Final = "it asks asynchronously; use `await event.a_process(processor)`"


class AnswersRequests(Protocol):
    """Where the answers to questions go."""

    def answer(self, request_id: str, value: Any) -> None:
        """Answer, from code that is not async."""
        ...

    async def a_answer(self, request_id: str, value: Any) -> None:
        """Answer."""
        ...


class _InputRequest(Event, ABC, frozen=True):
    """A person is asked.

    Attributes:
        prompt: The question.
        request_id: Id of the question; an answer names it.
        choices: What may be answered; nothing: anything.
        answer_schema: JSON schema of an answer.
        details: More about it, such as the name and the arguments of a tool.
        expires: Until when it can be answered; None: always.
    """

    prompt: str
    request_id: str = Field(default_factory=lambda: uuid4().hex)
    choices: tuple[str, ...] = ()
    answer_schema: dict[str, JsonValue] = Field(default_factory=dict)
    details: dict[str, JsonValue] = Field(default_factory=dict)
    expires: datetime | None = None
    _answering: AnswersRequests | None = PrivateAttr(None)

    @property
    def text(self) -> str:
        """The question."""
        return self.prompt

    def __eq__(self, other: object) -> bool:
        """Whether it says the same, wherever it was read."""
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.uuid)

    def answered_by(self, answering: AnswersRequests) -> None:
        """Let `respond` answer it; the reader of the run calls it."""
        # It is no field, so a frozen event takes it. `object.__setattr__` would put it among the fields: an event that was
        # read twice would not be equal to itself.
        setattr(self, "_answering", answering)  # noqa: B010

    async def a_respond(self, response: InputResponseEvent | Any) -> None:
        """Answer.

        Args:
            response: The answer, or an event that has it.

        Raises:
            MisuseError: It does not come from the events of a run (a RuntimeError).
            InputAnsweredError, InputExpiredError, InputValueError: See `AsyncRunResponse.respond`.
        """
        await self._bound().a_answer(self.request_id, _value(response))

    def _bound(self) -> AnswersRequests:
        if self._answering is None:
            raise MisuseError(
                f"The input request {self.request_id!r} does not come from the events of a run, so that it can't be "
                f"answered by itself. Answer it with `response.respond(request_id, value)`."
            )
        return self._answering


class InputRequestEvent(_InputRequest, frozen=True):
    """A person is asked."""

    type: Literal["input_request"] = "input_request"

    def respond(self, response: InputResponseEvent | Any) -> None:
        """Answer, from code that is not async; see `a_respond`."""
        self._bound().answer(self.request_id, _value(response))


class AsyncInputRequestEvent(_InputRequest, frozen=True):
    """A person is asked, in a run that is read asynchronously."""

    type: Literal["async_input_request"] = "async_input_request"

    def process(self, event_processor: EventProcessorProtocol) -> Any:
        """It can't be processed synchronously.

        Raises:
            DeclarationError: Always (a TypeError).
        """
        raise _not_taken(event_processor, self.type, NOT_SYNC)


class InputResponseEvent(Event, frozen=True):
    """A question was answered, or is over.

    Attributes:
        value: The answer.
        request_id: The question.
        by: Who answered; "": it is not said.
        status: Whether it was answered; else why it is over.
    """

    type: Literal["input_response"] = "input_response"
    value: Any
    request_id: str = ""
    by: str = ""
    status: Literal["answered", "expired", "withdrawn"] = "answered"

    @property
    def text(self) -> str:
        """The answer."""
        return str(self.value) if self.status == "answered" else f"The question is {self.status}."


class AgentMessageEvent(Event, frozen=True):
    """An agent has said something that the others hear.

    Attributes:
        message: "text" and "sender"; "content", "role" and "name" as in group chats; "id" of the message.
    """

    type: Literal["agent_message"] = "agent_message"
    message: Message

    @property
    def text(self) -> str:
        """Who, and what."""
        return f"{self.message.get('sender', self.source)}: {self.message.get('text', '')}"


class OutputEvent(Event, frozen=True):
    """Something was put out, such as by code that an agent ran."""

    type: Literal["output"] = "output"
    value: str

    @property
    def text(self) -> str:
        """The text."""
        return self.value


class SystemEvent(Event, frozen=True):
    """Something that people may want to know."""

    type: Literal["system"] = "system"
    value: str

    @property
    def text(self) -> str:
        """The text."""
        return self.value


class ToolCallEvent(FurtherEvent, frozen=True):
    """An agent calls a tool.

    Attributes:
        call_id: Tells the calls of a model's answer apart.
        name: Of the tool.
        arguments: As the model wrote them, usually JSON.
    """

    type: Literal["tool_call"] = "tool_call"
    call_id: str
    name: str
    arguments: str = "{}"

    @property
    def text(self) -> str:
        """Who, and which tool."""
        return f"{self.source} called {self.name}"


class ToolResultEvent(FurtherEvent, frozen=True):
    """A tool has returned.

    Attributes:
        call_id: The call.
        name: Of the tool.
        content: What it returned, as text.
        is_error: Whether it failed.
    """

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    name: str
    content: str
    is_error: bool = False

    @property
    def text(self) -> str:
        """Which tool, and what."""
        return f"{self.name} {'failed: ' if self.is_error else 'returned '}{self.content}"


class StreamEvent(FurtherEvent, frozen=True):
    """A piece of a text that is being written. A processor without a method for it does not get it.

    Attributes:
        content: The piece.
        message_id: Id of the message that the pieces become; "": it is not known.
    """

    type: Literal["stream"] = "stream"
    content: str
    message_id: str = ""
    usual: ClassVar[str] = "stream"

    @property
    def text(self) -> str:
        """The piece."""
        return self.content


class InterruptedEvent(FurtherEvent, frozen=True):
    """The process is gone in which `source` was speaking: what it showed since is void, and it begins again.

    Only readers who ask for drafts get it, and only where there were some.

    Attributes:
        since: Number of the first event that is void: every draft of this source from there on, up to this event.
    """

    type: Literal["interrupted"] = "interrupted"
    since: int

    @property
    def text(self) -> str:
        """A sentence for people."""
        return f"{self.source} was interrupted, and begins again"


class SpeakerSelectedEvent(FurtherEvent, frozen=True):
    """An agent is to speak.

    Attributes:
        speakers: Their names; several speak at the same time.
    """

    type: Literal["speaker_selected"] = "speaker_selected"
    speakers: tuple[str, ...]

    @property
    def text(self) -> str:
        """Who."""
        return f"Next: {', '.join(self.speakers)}"


class HandoffEvent(FurtherEvent, frozen=True):
    """An agent hands over to another one.

    Attributes:
        target: Who goes on.
        content: What is said with it.
    """

    type: Literal["handoff"] = "handoff"
    target: str
    content: str = ""

    @property
    def text(self) -> str:
        """Who, and to whom."""
        return f"{self.source} handed over to {self.target}"


class UsageEvent(FurtherEvent, frozen=True):
    """A model has answered.

    Attributes:
        model: Its name; "": it is not known.
        prompt_tokens: Tokens that it read.
        completion_tokens: Tokens that it wrote.
    """

    type: Literal["usage"] = "usage"
    model: str = ""
    prompt_tokens: int
    completion_tokens: int

    @property
    def text(self) -> str:
        """How many."""
        return f"{self.source} used {self.prompt_tokens} + {self.completion_tokens} tokens"


class ErrorEvent(FurtherEvent, frozen=True):
    """The run has failed. The last event.

    Attributes:
        error_type: Class of what was raised.
        content: Its text.
        where: Where it was raised: an agent, or the run's manager.
    """

    type: Literal["error"] = "error"
    error_type: str
    content: str
    where: str = ""

    @property
    def text(self) -> str:
        """The error."""
        return f"{self.error_type}: {self.content}"


class CompletedEvent(FurtherEvent, frozen=True):
    """The run has ended, and not by an error. The last event.

    Attributes:
        state: "completed", or "cancelled".
        stop_reason: Why it ended; None: nothing says so.
    """

    type: Literal["completed"] = "completed"
    state: Literal["completed", "cancelled"] = "completed"
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """As in the RFC: "done"."""
        return "done" if self.state == "completed" else "cancelled"


AnyEvent: TypeAlias = Annotated[
    InputRequestEvent
    | AsyncInputRequestEvent
    | InputResponseEvent
    | AgentMessageEvent
    | OutputEvent
    | SystemEvent
    | ToolCallEvent
    | ToolResultEvent
    | StreamEvent
    | InterruptedEvent
    | SpeakerSelectedEvent
    | HandoffEvent
    | UsageEvent
    | ErrorEvent
    | CompletedEvent,
    Field(discriminator="type"),
]
"""Any event."""


@cache
def _adapter() -> TypeAdapter[AnyEvent]:
    return TypeAdapter(AnyEvent)


def load_event(data: Mapping[str, Any] | str | bytes) -> AnyEvent:
    """An event from what `model_dump` or `model_dump_json` returned.

    Raises:
        ValueError: It is none (pydantic's ValidationError).
    """
    if isinstance(data, str | bytes):
        return _adapter().validate_json(data)
    return _adapter().validate_python(data)


def is_question(event: Event) -> TypeGuard[InputRequestEvent | AsyncInputRequestEvent]:
    """Whether a person is asked. The type is a text that is there; to ask for the class of a model calls a function."""
    return event.type in ("input_request", "async_input_request")


def _value(response: InputResponseEvent | Any) -> Any:
    return response.value if isinstance(response, InputResponseEvent) else response


def is_input_request(event: Event) -> TypeGuard[InputRequestEvent]:
    """Whether a person is asked."""
    return event.type == "input_request"


def is_async_input_request(event: Event) -> TypeGuard[AsyncInputRequestEvent]:
    """Whether a person is asked, in a run that is read asynchronously."""
    return event.type == "async_input_request"


def is_input_response(event: Event) -> TypeGuard[InputResponseEvent]:
    """Whether a question was answered."""
    return event.type == "input_response"


def is_output(event: Event) -> TypeGuard[OutputEvent]:
    """Whether something was put out."""
    return event.type == "output"


def is_agent_message(event: Event) -> TypeGuard[AgentMessageEvent]:
    """Whether an agent said something."""
    return event.type == "agent_message"


def is_system_event(event: Event) -> TypeGuard[SystemEvent]:
    """Whether it is a system event."""
    return event.type == "system"


def is_tool_call(event: Event) -> TypeGuard[ToolCallEvent]:
    """Whether a tool was called."""
    return event.type == "tool_call"


def is_tool_result(event: Event) -> TypeGuard[ToolResultEvent]:
    """Whether a tool has returned."""
    return event.type == "tool_result"


def is_stream(event: Event) -> TypeGuard[StreamEvent]:
    """Whether it is a piece of a text."""
    return event.type == "stream"


def is_interrupted(event: Event) -> TypeGuard[InterruptedEvent]:
    """Whether drafts are void."""
    return event.type == "interrupted"


def is_speaker_selected(event: Event) -> TypeGuard[SpeakerSelectedEvent]:
    """Whether an agent is to speak."""
    return event.type == "speaker_selected"


def is_handoff(event: Event) -> TypeGuard[HandoffEvent]:
    """Whether an agent handed over."""
    return event.type == "handoff"


def is_usage(event: Event) -> TypeGuard[UsageEvent]:
    """Whether a model has answered."""
    return event.type == "usage"


def is_error(event: Event) -> TypeGuard[ErrorEvent]:
    """Whether the run has failed."""
    return event.type == "error"


def is_completed(event: Event) -> TypeGuard[CompletedEvent]:
    """Whether the run has ended, and not by an error."""
    return event.type == "completed"
