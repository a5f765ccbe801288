"""What happens in a run, as its readers see it. The first six types are those of AG2's RFC 001; the others are ours."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol, TypeAlias, TypeGuard
from uuid import uuid4

from pydantic import Field, JsonValue, PrivateAttr, TypeAdapter

from .errors import EventTypeError, UnboundRequestError
from .event import Event, EventProcessorProtocol, FurtherEvent

Message: TypeAlias = dict[str, Any]
"""A message as plain data: "text" and "sender", and what group chats have: "content", "role", "name"."""

NOT_SYNC: Final = "it asks asynchronously; use `await event.a_process(processor)`"


class Answering(Protocol):
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
    _answering: Answering | None = PrivateAttr(None)

    @property
    def text(self) -> str:
        """The question."""
        return self.prompt

    def __eq__(self, other: object) -> bool:
        """Whether it says the same, wherever it was read."""
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.uuid)

    def answered_by(self, answering: Answering) -> None:
        """Let `respond` answer it; whoever reads the run calls it."""
        # It is no field, so a frozen event takes it. `object.__setattr__` would put it among the fields: an event that was
        # read twice would not be equal to itself.
        setattr(self, "_answering", answering)  # noqa: B010

    async def a_respond(self, response: InputResponseEvent | Any) -> None:
        """Answer.

        Args:
            response: The answer, or an event that has it.

        Raises:
            UnboundRequestError: It does not come from the events of a run (a RuntimeError).
            InputAnsweredError, InputExpiredError, InputValueError: See `AsyncRunResponse.respond`.
        """
        await self._bound().a_answer(self.request_id, _value(response))

    def _bound(self) -> Answering:
        if self._answering is None:
            raise UnboundRequestError(self.request_id)
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
            EventTypeError: Always (a TypeError).
        """
        raise EventTypeError(type(event_processor).__name__, self.type, NOT_SYNC)


class InputResponseEvent(Event, frozen=True):
    """A question was answered, or is over.

    Attributes:
        value: The answer.
        request_id: The question.
        by: Who answered; "": nobody says.
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
    """Somebody has said something that the others hear.

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
        """What."""
        return self.value


class SystemEvent(Event, frozen=True):
    """Something that people may want to know."""

    type: Literal["system"] = "system"
    value: str

    @property
    def text(self) -> str:
        """What."""
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


class SpeakerSelectedEvent(FurtherEvent, frozen=True):
    """Somebody is to speak.

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
        """What was raised."""
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
